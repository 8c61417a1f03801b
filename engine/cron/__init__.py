"""A distributed cron: exactly one run of a job per slot, whatever happens to the nodes."""
