"""A feature that brings a kind of alert rule, and nothing else."""
