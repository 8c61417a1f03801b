"""Pings: how a job that runs elsewhere tells that it has begun, how it ended, and what it wrote."""
