"""The lake's files as Delta tables, for whatever reads these: no jar, and no byte is written twice."""
