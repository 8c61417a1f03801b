"""Keeps series bounded: those by the minute and by the hour of some days each; those by the day stay for ever."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from engine.core.clock import Clock, SystemClock
from engine.core.resolution import Resolution

#: Rows removed in one statement.
BATCH = 5_000
#: A tick hands control back after so many seconds, even with work left.
TICK_S = 5.0
_DAY_S = 86_400


class SeriesRetention:
    """A duty over points that have a ``resolution`` and begin ``at`` a second since the epoch."""

    interval_s = 600.0

    def __init__(
        self, name: str, points: QuerySet[Any], minute_days: int, hour_days: int, *, clock: Clock | None = None
    ) -> None:
        """``points`` are those that may go."""
        self.name = name
        self._points = points
        self._days = {Resolution.MINUTE: minute_days, Resolution.HOUR: hour_days}
        self._clock = clock or SystemClock()

    def tick(self) -> None:
        """Remove in small transactions, for at most about :data:`TICK_S` seconds; the next tick goes on."""
        started, today_s = self._clock.monotonic(), self._clock.now_ms() // 1000 // _DAY_S * _DAY_S
        for resolution, days in self._days.items():
            first_s = today_s - (days - 1) * _DAY_S
            while self._remove(resolution, first_s):
                if self._clock.monotonic() - started > TICK_S:
                    return

    def _remove(self, resolution: Resolution, first_s: int) -> int:
        old = self._points.filter(resolution=resolution.value, at__lt=first_s).order_by("at")
        return self._points.filter(pk__in=list(old.values_list("pk", flat=True)[:BATCH])).delete()[0]
