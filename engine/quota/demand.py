"""How much is asked of a limiter, as its node reports it."""

from __future__ import annotations

#: How far back it looks, in seconds; and what is asked all the time.
MEMORY_S, STEADY_S = 0.5, 2.5
#: What is seen in less time than that tells little: it is counted on, in seconds.
LEAST_S = 0.05


class Demand:
    """Tokens a second, admitted or not. Not thread-safe; ``now`` is in seconds of one monotonic clock."""

    __slots__ = ("_asked", "_since", "rate", "steady")

    def __init__(self, now: float) -> None:
        self.rate = 0.0
        #: The same over a longer time: what comes once is hardly in it.
        self.steady = 0.0
        self._asked = 0
        self._since = now

    def add(self, n: int) -> None:
        self._asked += n

    def look(self, now: float) -> float:
        """The rate as it is now. Follows what grows at once by half, what falls as slowly as it remembers."""
        passed = now - self._since
        if passed < LEAST_S:
            self.rate = max(self.rate, self._asked / LEAST_S / 2)
            return self.rate
        seen = self._asked / passed
        share = min(1.0, passed / MEMORY_S)
        if seen > self.rate:
            share = max(share, 0.5)
        self.rate += share * (seen - self.rate)
        self.steady += min(1.0, passed / STEADY_S) * (seen - self.steady)
        self._asked, self._since = 0, now
        return self.rate

    def lasts_s(self, n: int) -> float:
        """For how many seconds ``n`` tokens last; 0 where nobody has come again."""
        return n / self.rate if self.steady and self.rate else 0.0
