"""A feature whose kind of alert rule has the name of another's."""
