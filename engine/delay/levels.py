"""Levels and buckets: how coarsely a message is kept that is due so far away.

Four levels, of weeks, days, hours and minutes. A level's current bucket and the next one are closed: the next one is
being copied into the level below. Everything from there on is open, so a message goes to the coarsest level whose
bucket of its due time is open; minutes take what no other level does.

What is closed stays closed: the highest closed bucket of each level is a *watermark* that is stored, and routing goes
by it, never by the clock, so that neither a restart nor a clock that is put back opens anything again.

All times are UTC in milliseconds since the epoch, and buckets are aligned to it: weeks begin on Thursdays.

After Ctrip's scheduler of L3w, L2d, L1h and L0m, with their barriers of two buckets each (14 d, 2 d, 2 h).
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from engine.core.errors import BadInput

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS

#: How far away a message may be due unless an installation says otherwise.
DEFAULT_HORIZON_MS = 730 * DAY_MS
#: The latest moment that a bucket is made for: a due time is kept in 63 bits, and nobody means a later one.
LATEST_MS = 253_402_300_799_999


class Level(IntEnum):
    """How long the buckets are. The value is stored."""

    L0M = 0
    L1H = 1
    L2D = 2
    L3W = 3

    @property
    def size_ms(self) -> int:
        return _SIZES[self]

    @property
    def label(self) -> str:
        """As the literature has it: ``L3w``."""
        return self.name[:2] + self.name[2].lower()


_SIZES = (MINUTE_MS, HOUR_MS, DAY_MS, WEEK_MS)
#: The levels that are copied into a finer one, the coarsest first.
COARSE = (Level.L3W, Level.L2D, Level.L1H)


class TimeBucket(NamedTuple):
    """One span of time of a level: the ``number``-th since the epoch."""

    level: Level
    number: int

    @property
    def start_ms(self) -> int:
        return self.number * _SIZES[self.level]

    @property
    def end_ms(self) -> int:
        """The first moment after it."""
        return (self.number + 1) * _SIZES[self.level]

    @property
    def closes_ms(self) -> int:
        """When a level's bucket closes: a whole bucket before it begins, which is the time there is to copy it."""
        return (self.number - 1) * _SIZES[self.level]

    def __str__(self) -> str:
        return f"{self.level.label}/{self.number}"


class Watermarks(NamedTuple):
    """The highest closed bucket of each level that has any closed. They only grow."""

    hour: int
    day: int
    week: int

    def closes(self, bucket: TimeBucket) -> bool:
        """Whether it is closed by them: nothing new goes there. Minutes are never closed by a watermark."""
        return bucket.level is not Level.L0M and bucket.number <= self[bucket.level - 1]

    def advanced(self, now_ms: int) -> Watermarks:
        """As of ``now_ms``, or as they are where that is earlier."""
        at = watermarks_at(now_ms)
        return Watermarks(max(self.hour, at.hour), max(self.day, at.day), max(self.week, at.week))


def watermarks_at(now_ms: int) -> Watermarks:
    """Of a shard that begins at ``now_ms``: the current bucket and the next one of each level are closed."""
    return Watermarks(*(now_ms // _SIZES[level] + 1 for level in reversed(COARSE)))


def minute_of(moment_ms: int) -> int:
    """The number of the minute that it lies in."""
    return moment_ms // MINUTE_MS


def minute_bucket(number: int) -> TimeBucket:
    return TimeBucket(Level.L0M, number)


def bucket_at(level: int, number: int) -> TimeBucket:
    """As a store names it."""
    return TimeBucket(Level(level), number)


def route(due_ms: int, now_ms: int, marks: Watermarks) -> TimeBucket:
    """The open bucket for a due time: of the coarsest level that still takes it. What is overdue goes to the current
    minute.
    """
    at = max(due_ms, now_ms)
    for level in COARSE:
        number = at // _SIZES[level]
        if number > marks[level - 1]:
            return TimeBucket(level, number)
    return TimeBucket(Level.L0M, at // MINUTE_MS)


def most_live(horizon_ms: int) -> int:
    """The most buckets there are at any moment of a shard that keeps up, for due times up to ``horizon_ms`` away.

    Open weeks, then at most 12 days, 46 hours and 120 minutes; the minute before, which may be handing over its last;
    and one bucket of each coarse level that is being copied. For two years that is 104 + 12 + 46 + 120 + 1 + 3 = 286.
    A shard that was down for longer has the minutes of that time as well, until it has caught up.
    """
    weeks = max(0, -(-horizon_ms // WEEK_MS) - 1)
    return weeks + 12 + 46 + 120 + 1 + len(COARSE)


def insist_within(due_ms: int, now_ms: int, horizon_ms: int) -> None:
    """Raise ``BadInput`` for a due time beyond the horizon, or one before the epoch."""
    if due_ms < 0:
        raise BadInput(
            f"A message cannot be due at {due_ms} ms, before 1970.",
            remedy="Give milliseconds since the Unix epoch, UTC.",
            field="due_ms",
        )
    if due_ms - now_ms > horizon_ms or due_ms > LATEST_MS:
        raise BadInput(
            f"A message cannot be due {(due_ms - now_ms) / DAY_MS:,.1f} days from now:"
            f" the horizon is {horizon_ms / DAY_MS:,.0f} days.",
            remedy="Choose an earlier time, or have the horizon of the installation widened.",
            field="due_ms",
        )


def last_whole_tick(now_ms: int, tick_ms: int) -> int:
    """What is due up to this moment may be handed over at ``now_ms``: a due time counts from the tick at or after it.

    So nothing is early, and a tick's messages go together.
    """
    return now_ms - now_ms % tick_ms
