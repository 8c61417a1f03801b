"""How much a driver tells of its application at most: the driver keeps to it, and the worker holds it to that."""

#: Of stages and of streaming queries the newest so many, and those of these that run.
MOST_STAGES, MOST_QUERIES = 100, 20
#: Of a name, and of why the application failed, so many characters.
NAME_SENT, FAILURE_SENT = 1_000, 8_000
#: One telling, in bytes: names of four bytes each character, and escaped.
LONGEST = 1024 * 1024
