"""Control planes: where tokens are allocated."""
