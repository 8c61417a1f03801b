"""The token bucket: arithmetic alone, with time as an argument.

After golang.org/x/time/rate (Allow, Reserve, Wait and what cancelling gives back), with three differences on purpose:
time that runs back is taken for standing still (there the same interval is credited twice, golang/go 71360), a limit
of zero leaves what was saved to be spent as always, and what those wait for who reserved later is reckoned with the
limit of the moment when one is cancelled (there with that of when it was reserved).
"""

from __future__ import annotations

import math


class Bucket:
    """So many tokens a second, of which at most ``burst`` are saved up. Begins full unless told. Not thread-safe.

    ``now`` is in seconds of one monotonic clock; one before the last is taken for the last.
    An infinite limit admits everything, whatever the burst.
    """

    __slots__ = ("burst", "last", "latest_act", "limit", "tokens")

    def __init__(self, limit: float, burst: float, now: float, tokens: float | None = None) -> None:
        self.limit = limit
        self.burst = burst
        #: Below zero: taken in advance.
        self.tokens = burst if tokens is None else tokens
        self.last = now
        #: When the latest reservation may act.
        self.latest_act = now

    def advance(self, now: float) -> None:
        """Credit what came in since."""
        if now > self.last:
            # What stands above the burst was there before the burst was made smaller: set_burst has cut it already.
            self.tokens = min(self.burst, self.tokens + _brought(self.limit, now - self.last))
            self.last = now

    def take(self, n: float, now: float) -> bool:
        """Whether ``n`` are there; they are taken then."""
        if self.limit == math.inf:
            return True
        self.advance(now)
        if n > self.tokens:
            return False
        self.tokens -= n
        return True

    def reserve(self, n: float, now: float, max_wait: float) -> float | None:
        """Take ``n``, in advance if need be: the seconds until they are there. ``None``, and nothing is taken, when
        that is longer than ``max_wait`` or ``n`` can never be there at once.
        """
        if self.limit == math.inf:
            return 0.0
        self.advance(now)
        after = self.tokens - n
        delay = 0.0 if after >= 0 else -after / self.limit if self.limit > 0 else math.inf
        if n > self.burst or delay > max_wait or delay == math.inf:
            return None
        self.tokens = after
        self.latest_act = self.last + delay
        return delay

    def give_back(self, n: float, act_at: float, now: float) -> float:
        """Undo a reservation of ``n`` that may act at ``act_at``; how many tokens came back.

        None once it may have acted, and none of those that reservations made after it were told to wait for.
        """
        if self.limit == math.inf:
            return 0.0
        self.advance(now)
        if act_at <= self.last and act_at < now:
            return 0.0
        returned = n - _brought(self.limit, self.latest_act - act_at)
        if returned <= 0:
            return 0.0
        self.tokens = min(self.burst, self.tokens + returned)
        if act_at == self.latest_act and self.limit > 0:
            self.latest_act = max(self.last, act_at - n / self.limit)
        return returned

    def put_back(self, n: float, now: float) -> None:
        """``n`` that were taken are there again, as far as there is room."""
        if self.limit != math.inf:
            self.advance(now)
            self.tokens = min(self.burst, self.tokens + n)

    def set_limit(self, limit: float, now: float) -> None:
        """From ``now`` on; what came in until then came in at the old limit. Reservations keep what they were told."""
        if self.limit != math.inf:
            self.advance(now)
        else:
            self.last = max(self.last, now)
        self.limit = limit

    def set_burst(self, burst: float, now: float) -> None:
        """From ``now`` on; what is saved beyond it is gone."""
        self.advance(now)
        self.burst = burst
        self.tokens = min(self.tokens, burst)

    def at(self, now: float) -> float:
        """How many there are at ``now``, without changing anything."""
        if self.limit == math.inf:
            return self.burst
        return min(self.burst, self.tokens + _brought(self.limit, max(0.0, now - self.last)))


def _brought(limit: float, seconds: float) -> float:
    """What ``seconds`` bring; nothing in no time, whatever the limit."""
    return limit * seconds if seconds > 0 else 0.0
