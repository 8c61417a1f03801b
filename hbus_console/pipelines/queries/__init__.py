"""SQL over what the archive has: asked for, run as a job, and kept for whoever asked."""
