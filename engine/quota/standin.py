"""What one limiter does while its control plane is away."""

from __future__ import annotations

import math

from engine.quota.bucket import Bucket
from engine.quota.limiter import Source
from engine.quota.terms import OnLoss


class StandIn:
    """Spends by itself, as the rule says, and keeps count of it. Not thread-safe; ``now`` is monotonic seconds.

    The bucket begins with one token and holds what it brings in a second: a node that has just been cut off has a
    permit still, and all of them are cut off at once. It is the same bucket when the control plane goes again, with one
    token at most: who is cut off now and then spends no more than who is cut off.
    """

    __slots__ = ("_bucket", "_ended", "spent")

    def __init__(self) -> None:
        self._bucket: Bucket | None = None
        self._ended = False
        #: Tokens that the control plane was not told of.
        self.spent = 0

    def spend(self, n: int, now: float, on_loss: OnLoss, rate: float) -> bool:
        """Whether ``n`` may go; ``rate`` is this node's own, in tokens a second."""
        if on_loss is OnLoss.CLOSED:
            return False
        if on_loss is OnLoss.FALLBACK:
            if self._bucket is None or self._ended:
                self._bucket, self._ended = Bucket(rate, max(1.0, rate), now, tokens=self._first(now)), False
            if not self._bucket.take(n, now):
                return False
        self.spent += n
        return True

    def end(self) -> None:
        """The control plane is there again."""
        self._ended = True

    def report(self) -> int:
        """What was spent since the last report."""
        spent, self.spent = self.spent, 0
        return spent

    def brings_at(self, n: int, now: float) -> float | None:
        """When ``n`` may go, if nobody else comes; ``None``: never."""
        bucket = self._bucket
        if bucket is None or bucket.limit <= 0 or n > bucket.burst:
            return None
        return now + max(0.001, (n - bucket.at(now)) / bucket.limit)

    def tokens(self, on_loss: OnLoss, now: float) -> float:
        """What may go at once."""
        if on_loss is OnLoss.FALLBACK:
            return self._first(now) if self._bucket is None or self._ended else self._bucket.at(now)
        return math.inf if on_loss is OnLoss.OPEN else 0.0

    def _first(self, now: float) -> float:
        """What it begins with."""
        return 1.0 if self._bucket is None else min(1.0, self._bucket.at(now))

    def source(self, on_loss: OnLoss) -> Source:
        return {OnLoss.FALLBACK: Source.FALLBACK, OnLoss.OPEN: Source.OPEN, OnLoss.CLOSED: Source.CLOSED}[on_loss]
