"""Keeps books, versions of policies and ended plans bounded: those of a configured time, and the newest in any case."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings

from engine.core.clock import Clock, SystemClock, to_datetime
from hbus_console.quotas.retention import USES_S
from hbus_console.quotas.services.kept_books import first_to_keep, trim

#: A tick hands control back after so many seconds, even with work left.
TICK_S = 5.0


class BookRetention:
    """A duty. What a book that is kept says stays whole, so that there is a way back to it; and what was held to stays
    for as long as uses are kept, whatever is configured, for charts tell both.
    """

    name = "quota-book-retention"
    interval_s = 3_600.0

    def __init__(self, days: int, *, clock: Clock | None = None) -> None:
        self._kept = max(timedelta(days=days), timedelta(seconds=USES_S))
        self._clock = clock or SystemClock()

    def tick(self) -> None:
        """Trim in small transactions, for at most about :data:`TICK_S` seconds; the next tick goes on."""
        started = self._clock.monotonic()
        first = first_to_keep(to_datetime(self._clock.now_ms()) - self._kept)
        while first and trim(first) and self._clock.monotonic() - started < TICK_S:
            pass


def book_retention() -> BookRetention:
    """The duty of the keeper."""
    return BookRetention(settings.HBUS_QUOTA_VERSION_DAYS)
