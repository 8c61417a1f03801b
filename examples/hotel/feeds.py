"""Which bookings to play: the file that is named, else the simulator's."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from examples.hotel.bookings import Feed, read_feed
from examples.hotel.lifecycle import Moment, moments
from examples.hotel.simulator import simulate

#: How many bookings the simulator makes unless told.
SIMULATED = 3_000


def bookings_file(named: str = "") -> str:
    """The file named on the command line, else by ``BOOKINGS``; empty: none."""
    return named or os.environ.get("BOOKINGS", "")


def open_feed(file: str, limit: int | None = None) -> Feed:
    """The first ``limit`` bookings of ``file``, or so many simulated ones. Raises ``BadInput``."""
    return read_feed(Path(file), limit) if file else simulate(limit or SIMULATED)


@lru_cache(maxsize=1)
def score(file: str, bookings: int) -> tuple[str, tuple[Moment, ...]]:
    """Source and events of a feed, kept for whoever plays it bit by bit."""
    feed = open_feed(file, bookings)
    return feed.source, tuple(moments(feed))
