"""The pages of the alerts."""
