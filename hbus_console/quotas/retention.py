"""Keeps what is known of uses bounded: two weeks of minutes, no more rows than a database bears, and no dead nodes."""

from __future__ import annotations

from django.db.models import Max, Min

from engine.core.clock import Clock, SystemClock
from hbus_console.quotas.models import QuotaNodeReport, QuotaUse
from hbus_console.quotas.reports import GONE_AFTER_MS

#: Minutes are kept so long, in seconds; and of all limiters together no more rows than these.
USES_S, MOST_USES = 14 * 86_400, 5_000_000
#: Rows removed in one transaction: whoever books waits for no longer than that.
BATCH = 5_000
#: A tick hands control back after so many seconds, even with work left.
TICK_S = 5.0


class QuotaRetention:
    """A duty. Uses go oldest first; what a policy allowed and when stays with its versions."""

    name = "quota-retention"
    interval_s = 60.0

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def tick(self) -> None:
        """Trim in small transactions, for at most about :data:`TICK_S` seconds."""
        started, now_ms = self._clock.monotonic(), self._clock.now_ms()
        # A node that is back tells again within seconds.
        QuotaNodeReport.objects.filter(at_ms__lt=now_ms - 24 * GONE_AFTER_MS).delete()
        while trim_uses(now_ms) and self._clock.monotonic() - started < TICK_S:
            pass


def trim_uses(now_ms: int) -> int:
    """Remove up to :data:`BATCH` rows that are too old, or too many; how many there were."""
    ends = QuotaUse.objects.aggregate(first=Min("pk"), last=Max("pk"))
    if ends["first"] is None:
        return 0
    # Rows are written within seconds of their minute, so their ids are in its order. A COUNT would cost more.
    too_many = ends["last"] - MOST_USES
    through = ends["first"] + BATCH - 1
    oldest = QuotaUse.objects.filter(pk__lte=through)
    if too_many >= ends["first"]:
        return oldest.filter(pk__lte=too_many).delete()[0]
    return oldest.filter(minute__lt=now_ms // 1000 - USES_S).delete()[0]


def quota_retention() -> QuotaRetention:
    """The duty of the keeper."""
    return QuotaRetention()
