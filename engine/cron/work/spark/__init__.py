"""PySpark applications as work: what runs them, which of them may be run, and how they are submitted."""
