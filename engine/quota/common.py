"""What a whole node may spend by itself of limits that tenants share, while its control plane is away.

Each limiter stands in for itself; but of a shared limit there may be a limiter for every tenant that comes, and each
new one would bring a share of its own. So all limiters of a node take from one bucket of each such rule as well.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from engine.quota.bucket import Bucket


class CommonStandIns:
    """Thread-safe. ``now`` is monotonic seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buckets: dict[str, Bucket] = {}
        #: Of each rule: what the control plane had told this node's limiters that they may, together, and how many.
        self._told: Mapping[str, tuple[float, int]] = {}

    def begin(self, told: Mapping[str, tuple[float, int]], now: float) -> None:
        """The control plane has gone. A bucket begins with one token for each limiter that had been answered; when it
        goes again with no more than that, of what is left.
        """
        with self._lock:
            self._told = dict(told)
            for rule, bucket in list(self._buckets.items()):
                rate, limiters = self._told.get(rule, (bucket.limit, 1))
                self._buckets[rule] = _bucket(rate, limiters, now, min(float(limiters), bucket.at(now)))

    def take(self, rule: str, n: int, now: float, otherwise: float) -> bool:
        """Whether ``n`` may go; ``otherwise``: the rate of a rule that no limiter was answered for."""
        with self._lock:
            bucket = self._buckets.get(rule)
            if bucket is None:
                rate, limiters = self._told.get(rule, (otherwise, 1))
                bucket = self._buckets[rule] = _bucket(rate, limiters, now, float(limiters))
            return bucket.take(n, now)

    def put_back(self, rule: str, n: int, now: float) -> None:
        """They did not go after all."""
        with self._lock:
            if (bucket := self._buckets.get(rule)) is not None:
                bucket.put_back(n, now)


def _bucket(rate: float, limiters: int, now: float, tokens: float) -> Bucket:
    return Bucket(rate, max(float(limiters), rate), now, tokens=tokens)
