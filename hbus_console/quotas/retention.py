"""Keeps what is known of uses bounded: two weeks of minutes, no more rows than a database bears, and no dead nodes."""

from __future__ import annotations

from engine.core.clock import Clock, SystemClock
from hbus_console.quotas.models import QuotaNodeReport, QuotaUse
from hbus_console.quotas.reports import GONE_AFTER_MS

#: Minutes are kept so long, in seconds; and of all limiters together no more rows than these.
USES_S, MOST_USES = 14 * 86_400, 5_000_000
#: Rows removed in one transaction: whoever books waits for no longer than that.
BATCH = 5_000
#: How often rows are counted, in seconds.
COUNT_EVERY_S = 3_600.0
#: A tick hands control back after so many seconds, even with work left.
TICK_S = 5.0


class QuotaRetention:
    """A duty. Uses go oldest first; what a policy allowed and when stays with its versions."""

    name = "quota-retention"
    interval_s = 60.0

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._count_at = self._clock.monotonic()
        #: Rows that are too many.
        self._surplus = 0

    def tick(self) -> None:
        """Trim in small transactions, for at most about :data:`TICK_S` seconds."""
        started, now_ms = self._clock.monotonic(), self._clock.now_ms()
        # A node that is back tells again within seconds.
        QuotaNodeReport.objects.filter(at_ms__lt=now_ms - 24 * GONE_AFTER_MS).delete()
        if started >= self._count_at:
            # Not by ids: where rows are added to they have gaps.
            self._surplus = max(0, QuotaUse.objects.count() - MOST_USES)
            self._count_at = started + COUNT_EVERY_S
        while self._trim(now_ms) and self._clock.monotonic() - started < TICK_S:
            pass

    def _trim(self, now_ms: int) -> int:
        """Remove a batch of rows that are too old, or too many; how many there were."""
        rows = QuotaUse.objects.order_by("minute", "pk")
        if not self._surplus:
            rows = rows.filter(minute__lt=now_ms // 1000 - USES_S)
        most = min(BATCH, self._surplus) if self._surplus else BATCH
        gone = QuotaUse.objects.filter(pk__in=list(rows.values_list("pk", flat=True)[:most])).delete()[0]
        self._surplus = max(0, self._surplus - gone)
        return gone


def quota_retention() -> QuotaRetention:
    """The duty of the keeper."""
    return QuotaRetention()
