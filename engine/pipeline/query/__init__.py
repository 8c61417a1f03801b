"""SQL over a lake: one statement that reads, in a process of its own that is closed to all but the files it is told."""
