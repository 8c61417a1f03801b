"""The kinds of work that a job may be, a file each."""
