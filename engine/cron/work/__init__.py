"""How the work of one run is done in a worker's process: what it is given, how it is stopped, and what it says."""
