"""A feature in one folder: lamps that people switch. What it shows is that no other file is touched for it."""
