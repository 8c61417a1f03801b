"""Which bookings to play: the file that is named, else the simulator's."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import msgspec

from examples.hotel.bookings import Feed, read_feed
from examples.hotel.lifecycle import Moment, moments
from examples.hotel.player import timeline
from examples.hotel.simulator import simulate

#: How many bookings the simulator makes unless told.
SIMULATED = 3_000


def bookings_file(named: str = "") -> str:
    """The file named on the command line, else by ``BOOKINGS``; empty: none."""
    return named or os.environ.get("BOOKINGS", "")


def open_feed(file: str, limit: int | None = None) -> Feed:
    """The first ``limit`` bookings of ``file``, or so many simulated ones. Raises ``BadInput``."""
    return read_feed(Path(file), limit) if file else simulate(limit or SIMULATED)


class Score(msgspec.Struct, frozen=True):
    """A feed's events, and when each is played (see :func:`examples.hotel.player.timeline`)."""

    moments: list[Moment]
    timeline: list[float]


@lru_cache(maxsize=1)
def score(file: str, bookings: int) -> Score:
    """Kept for whoever plays it bit by bit."""
    played = list(moments(open_feed(file, bookings)))
    return Score(played, timeline(played))
