"""How far a node's clock is from the store's, by which leases, due times and breakers are counted."""

from __future__ import annotations

from math import ceil

import msgspec
import redis

from engine.core.clock import Clock


class ClockDifference(msgspec.Struct, frozen=True):
    """What one question to the store told."""

    #: Milliseconds that the node's clock is ahead of the store's; negative: behind it.
    ahead_ms: int
    #: The truth lies within so many milliseconds of it: half of what the question took, and of a millisecond.
    margin_ms: int = 0

    def beyond(self, limit_ms: int) -> bool:
        """Whether it is surely more than ``limit_ms``: a slow answer alone is no wrong clock."""
        return abs(self.ahead_ms) - self.margin_ms > limit_ms

    @property
    def words(self) -> str:
        """``3 ms ahead``, ``5.2 s behind``; within the margin of the measurement: ``the same``."""
        size = abs(self.ahead_ms)
        if size <= self.margin_ms:
            return "the same"
        amount = f"{size:,} ms" if size < 1_000 else f"{size / 1_000:,.1f} s"
        return f"{amount} {'ahead' if self.ahead_ms > 0 else 'behind'}"


def measure(store: redis.Redis, clock: Clock) -> ClockDifference:
    """Ask the store for its time; its answer is taken to be from the middle of the round trip.

    Raises ``redis.RedisError``.
    """
    asked_ms, asked = clock.now_ms(), clock.monotonic()
    seconds, micros = store.time()
    half_ms = (clock.monotonic() - asked) * 1_000 / 2
    # Clocks tell whole milliseconds: on the average half of one has passed already.
    ahead_ms = asked_ms + 0.5 + half_ms - (seconds * 1_000 + micros / 1_000)
    return ClockDifference(round(ahead_ms), ceil(half_ms + 0.5))
