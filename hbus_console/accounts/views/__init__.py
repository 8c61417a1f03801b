"""The pages of sign-in and access."""
