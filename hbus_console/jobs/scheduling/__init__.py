"""The role cron: nodes that decide slots."""
