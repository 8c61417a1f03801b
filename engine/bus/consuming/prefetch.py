"""How much to read ahead, learnt from how long the handler takes."""

from __future__ import annotations

#: Reading ahead covers this much work of all handler threads, in seconds.
HORIZON_S = 0.1
#: The most deliveries in hand and not yet handled.
MOST = 1_500
#: The most bytes of envelopes in hand and not yet handled, as far as their mean size tells.
MOST_BYTES = 64 * 1024 * 1024
#: How fast the mean follows: a tenth of each new duration.
WEIGHT = 0.1
#: Below this a duration counts as nothing, in seconds.
LEAST_S = 1e-6


class Prefetch:
    """Slow handlers get one delivery a thread, so that others may have the rest; no-op handlers get a full pipe."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._mean_s: float | None = None
        self._mean_bytes = 0.0

    def resize(self, concurrency: int) -> None:
        """Feed that many threads from now on."""
        self._concurrency = concurrency

    def observe(self, duration_s: float) -> None:
        """Learn from one finished handler. Called from many threads; a lost update does no harm."""
        mean_s = self._mean_s
        self._mean_s = duration_s if mean_s is None else mean_s + (duration_s - mean_s) * WEIGHT

    def weigh(self, messages: int, size: int) -> None:
        """Learn from one read of ``messages`` with ``size`` bytes in all. Called from one thread."""
        # The heaviest read counts for a while: a burst of large messages must not meet a light mean.
        self._mean_bytes = max(size / messages, self._mean_bytes * (1 - WEIGHT))

    def limit(self) -> int:
        """How many unhandled deliveries to hold at most; one a thread until something was learnt."""
        if self._mean_s is None:
            return self._concurrency
        ahead = self._concurrency * HORIZON_S / max(self._mean_s, LEAST_S)
        room = int(MOST_BYTES / self._mean_bytes) if self._mean_bytes else MOST
        return max(self._concurrency, min(MOST, room, self._concurrency + int(ahead)))
