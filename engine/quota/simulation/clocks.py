"""Clocks that go wrong as those of machines do."""

from __future__ import annotations

import threading

from engine.quota.simulation.timeline import Timeline

#: Wall time at the beginning of every history, in epoch seconds.
BEGIN_S = 1_790_000_000.0


class NodeClock:
    """A :class:`~engine.core.clock.Clock` of one machine."""

    def __init__(self, timeline: Timeline, rate: float, booted: float) -> None:
        self._timeline = timeline
        #: Its seconds in each true second, monotonic and wall.
        self.rate = rate
        #: What its monotonic clock showed at the beginning.
        self._booted = booted
        #: How far its wall clock was stepped, in seconds.
        self.stepped_s = 0.0

    def now_ms(self) -> int:
        return round((BEGIN_S + self.stepped_s + self._timeline.now * self.rate) * 1000)

    def monotonic(self) -> float:
        return self._booted + self._timeline.now * self.rate

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Others go on meanwhile."""
        if not event.is_set():
            self._timeline.run(self._timeline.now + seconds / self.rate, event.is_set)
        return event.is_set()


class PlaneClock:
    """The control plane's: a wall clock, as the store's is."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.stepped_s = 0.0

    def __call__(self) -> float:
        return BEGIN_S + self.stepped_s + self._timeline.now
