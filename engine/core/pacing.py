"""Holds who works to a rate."""

from __future__ import annotations

import threading

from engine.core.clock import Clock

#: Far less than one: what differences of seconds lose in precision.
_LOST = 1e-6


class Pace:
    """Admits ``rate`` things a second on average, the first at once. Not thread-safe.

    What was not asked for is saved up: as much as ``burst_s`` seconds bring may go together, and nothing with 0.
    """

    def __init__(self, rate: float, clock: Clock, *, burst_s: float = 0.0) -> None:
        self._rate = rate
        self._clock = clock
        self._saved_s = max(0.0, burst_s - 1 / rate)
        #: When the next one is free to go.
        self._free_at = clock.monotonic()

    def room(self) -> int:
        """How many may go now."""
        now = self._look()
        return max(0, int((now - self._free_at) * self._rate + 1 + _LOST))

    def spend(self, count: int) -> None:
        """So many went. More than there was room for is paid back before the next may go."""
        self._look()
        self._free_at += count / self._rate

    def admit(self, count: int, stop: threading.Event) -> None:
        """Wait until the next may go, then let ``count`` go together; returns at once when ``stop`` is set."""
        wait_s = self._free_at - self._look()
        self._free_at += count / self._rate
        if wait_s > 0:
            self._clock.wait(stop, wait_s)

    def _look(self) -> float:
        now = self._clock.monotonic()
        self._free_at = max(self._free_at, now - self._saved_s)
        return now
