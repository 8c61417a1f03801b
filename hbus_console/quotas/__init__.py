"""Quotas: policies with versions, what every node is held to, and who is held back."""
