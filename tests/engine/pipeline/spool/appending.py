"""Appends to a spool until it is killed; each message comes again now and then, as after a kill.

    python -m tests.engine.pipeline.spool.appending <root> <topic> <first number>

Prints the highest number that is on disk, for certain, after each call.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.pipeline.spool import writer as writing
from engine.pipeline.spool.frames import Spooled
from engine.pipeline.spool.writer import SpoolWriter

#: So small that a kill falls into each part of making another.
FILE_BYTES = 20_000
#: How far it goes back at most for what comes again.
BACK = 40


def numbered(number: int) -> Spooled:
    return Spooled(f"{number:016x}", b"%d " % number * (number % 50))


def main(words: Sequence[str]) -> None:
    root, topic, first = words
    writing.FILE_BYTES = FILE_BYTES
    rng = random.Random(int(first))
    writer = SpoolWriter(Path(root), topic)
    number = int(first)
    while True:
        with writer.held():
            beyond = number + rng.randrange(1, 30)
            writer.append([numbered(each) for each in range(max(1, number - rng.randrange(BACK)), beyond)])
        number = beyond
        print(number - 1, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
