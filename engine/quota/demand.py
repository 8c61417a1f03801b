"""How much is asked of a limiter, as its node reports it."""

from __future__ import annotations

#: How far back it looks, in seconds.
MEMORY_S = 0.5
#: What is seen in less time than that tells little.
LEAST_S = 0.01


class Demand:
    """Tokens a second, admitted or not. Not thread-safe; ``now`` is in seconds of one monotonic clock."""

    __slots__ = ("_asked", "_since", "rate")

    def __init__(self, now: float) -> None:
        self.rate = 0.0
        self._asked = 0
        self._since = now

    def add(self, n: int) -> None:
        self._asked += n

    def look(self, now: float) -> float:
        """The rate as it is now. Follows what grows at once by half, what falls as slowly as it remembers."""
        passed = max(LEAST_S, now - self._since)
        seen = self._asked / passed
        share = min(1.0, passed / MEMORY_S)
        if seen > self.rate:
            share = max(share, 0.5)
        self.rate += share * (seen - self.rate)
        self._asked, self._since = 0, now
        return self.rate
