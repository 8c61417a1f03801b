"""What a node may spend of each bucket by itself while the control plane is away: all its limiters together."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from engine.quota.bucket import Bucket
from engine.quota.protocol import BucketLink

#: What nobody asked of for so long is forgotten, in seconds.
FORGOTTEN_S = 3_600.0

#: A rule, and whose bucket of it.
_Key = tuple[str, str]


@dataclass(slots=True)
class _Alone:
    """Of one bucket."""

    #: Tokens a second, as the control plane said last, and when: where that was less than what the rules say.
    told: float = math.inf
    told_at: float = -math.inf
    bucket: Bucket | None = None
    #: Whether the control plane has answered since the bucket was begun.
    ended: bool = False

    def first(self, now: float) -> float:
        """What it begins with."""
        return 1.0 if self.bucket is None else min(1.0, self.bucket.at(now))

    def left(self, now: float) -> float:
        return self.first(now) if self.bucket is None or self.ended else self.bucket.at(now)

    def begun(self, rate: float, now: float) -> Bucket:
        if self.bucket is None or self.ended:
            # The control plane may know fewer nodes than there are: its memory is young, or some have not asked.
            rate = min(rate, self.told)
            self.bucket, self.ended = Bucket(rate, max(1.0, rate), now, tokens=self.first(now)), False
        return self.bucket


class StandIns:
    """Buckets of a node's own, one for each that its limiters are held to. Thread-safe; ``now`` is monotonic seconds.

    Each begins with one token and holds what it brings in a second: a node that has just been cut off has permits
    still, and all of them are cut off at once. It is the same bucket when the control plane goes again, with one token
    at most: who is cut off now and then spends no more than who is cut off.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alone: dict[_Key, _Alone] = {}

    def told(self, chain: Sequence[BucketLink], rates: Sequence[float], allowed: Sequence[float], now: float) -> None:
        """The control plane has answered: so much a second it has ``allowed`` of each bucket when it is away again."""
        with self._lock:
            for link, rate, most in zip(chain, rates, allowed, strict=False):
                if most < rate or (link.rule, link.owner) in self._alone:
                    alone = self._of(link)
                    alone.told, alone.told_at, alone.ended = most, now, alone.bucket is not None

    def take(self, chain: Sequence[BucketLink], rates: Sequence[float], n: int, now: float) -> bool:
        """Whether ``n`` may go; they are taken of all the buckets then. ``rates`` are those of the node's rules."""
        with self._lock:
            buckets = [self._of(link).begun(rate, now) for link, rate in zip(chain, rates, strict=True)]
            if any(bucket.at(now) < n for bucket in buckets):
                return False
            for bucket in buckets:
                bucket.take(n, now)
            return True

    def brings_at(self, chain: Sequence[BucketLink], n: int, now: float) -> float | None:
        """When ``n`` may go, if nobody else comes; ``None``: never, or nobody has asked yet."""
        with self._lock:
            moments = [now + 0.001]
            for link in chain:
                bucket = self._of(link).bucket
                if bucket is None or bucket.limit <= 0 or n > bucket.burst:
                    return None
                moments.append(now + (n - bucket.at(now)) / bucket.limit)
            return max(moments)

    def tokens(self, chain: Sequence[BucketLink], now: float) -> float:
        """What may go at once."""
        with self._lock:
            return min((self._of(link).left(now) for link in chain), default=0.0)

    def prune(self, used: set[_Key], now: float) -> None:
        """Forget the buckets that are in none of the chains ``used``, but for what would give a token anew too soon."""
        with self._lock:
            for key in [key for key in self._alone if key not in used]:
                alone = self._alone[key]
                bucket = alone.bucket
                is_old = bucket is None or bucket.at(now) >= 1.0 or now - bucket.last > FORGOTTEN_S
                if is_old and now - alone.told_at > FORGOTTEN_S:
                    del self._alone[key]

    def _of(self, link: BucketLink) -> _Alone:
        key = link.rule, link.owner
        alone = self._alone.get(key)
        if alone is None:
            alone = self._alone[key] = _Alone()
        return alone
