"""Keeps the history of the lag bounded by its rows, whatever the number of subscriptions.

Every subscription leaves a row every five seconds: 138 million in two days for 4,000 of them. The newest
:data:`FINE_ROWS` stay as they are, for two days at most. Of what is older one reading a span stays, and the span is so
long that two weeks of them fit into :data:`COARSE_ROWS`.
"""

from __future__ import annotations

from itertools import takewhile

from django.db.models import F, Max

from hbus_console.messages.models import FINE_MS, LagSample

DAY_MS = 24 * 3_600_000
#: An hour of 4,000 subscriptions; two days of 86.
FINE_ROWS = 3_000_000
#: Two weeks of 496 subscriptions in steps of five minutes, of 4,000 in steps of 45.
COARSE_ROWS = 2_000_000
COARSE_MS = 14 * DAY_MS
#: A span is a whole number of these, so that the readings of a longer one are among those of a shorter.
SPAN_MS = 300_000
#: The readings of the first seconds of each span are kept; the sampler ticks once in so long.
EVERY_MS = 5_000


class LagHistory:
    """Thins the old part batch by batch, in the order in which it was written. Not thread-safe."""

    def __init__(self) -> None:
        self._span_ms = 0
        #: Everything up to this row is thinned to that span.
        self._thinned = 0

    def thin(self, now_ms: int, batch: int) -> int:
        """Look at the next ``batch`` rows of the old part and remove what need not stay; how many were looked at."""
        newest = LagSample.objects.aggregate(pk=Max("pk"), at_ms=Max("at_ms"))
        if newest["pk"] is None:
            return 0
        self._fit(LagSample.objects.filter(at_ms=newest["at_ms"]).count())
        rows = LagSample.objects.filter(pk__gt=self._thinned).order_by("pk").values_list("pk", "at_ms")[:batch]
        # Rows lie in the order of time, and none is missing among the newest: their numbers count them.
        last_old = newest["pk"] - FINE_ROWS
        old = list(takewhile(lambda row: row[0] <= last_old or row[1] < now_ms - FINE_MS, rows))
        if not old:
            return 0
        past = LagSample.objects.filter(pk__gte=old[0][0], pk__lte=old[-1][0]).alias(rest=F("at_ms") % self._span_ms)
        past.filter(rest__gte=EVERY_MS).delete()
        self._thinned = old[-1][0]
        return len(old)

    def _fit(self, subscriptions: int) -> None:
        """Choose the span for the most there were; when it grew, everything old is looked at again."""
        readings = COARSE_MS // SPAN_MS * subscriptions
        span_ms = SPAN_MS * max(1, -(-readings // COARSE_ROWS))
        if span_ms > self._span_ms:
            self._span_ms, self._thinned = span_ms, 0


def end(now_ms: int) -> None:
    """Remove what is older than two weeks."""
    LagSample.objects.filter(at_ms__lt=now_ms - COARSE_MS).delete()
