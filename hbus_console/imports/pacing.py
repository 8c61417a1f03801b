"""Holds a publisher to a rate."""

from __future__ import annotations

import threading

from engine.core.clock import Clock


class Pace:
    """Admits ``rate`` messages a second on average, without saving up for a burst. Not thread-safe."""

    def __init__(self, rate: float, clock: Clock, stop: threading.Event) -> None:
        self._rate = rate
        self._clock = clock
        self._stop = stop
        self._free_at = clock.monotonic()

    def admit(self, count: int) -> None:
        """Wait until ``count`` more may go; returns at once when ``stop`` is set."""
        now = self._clock.monotonic()
        start = max(self._free_at, now)
        self._free_at = start + count / self._rate
        if start > now:
            self._clock.wait(self._stop, start - now)
