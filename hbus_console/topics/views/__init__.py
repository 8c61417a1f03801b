"""The pages of topics, subscriptions, teams, and publishing by hand."""
