"""Keeps what is known of uses bounded: two weeks, but of days for ever, no more rows than a database bears, and no
dead nodes."""

from __future__ import annotations

from django.db import transaction

from engine.core.clock import Clock, SystemClock
from hbus_console.evidence.router import LEDGER
from hbus_console.quotas.models import QuotaNodeReport, QuotaUse, QuotaUseDay, QuotaUseRollup, UsesTrimmed
from hbus_console.quotas.reports import GONE_AFTER_MS

#: Uses are kept so long, in seconds; and of all limiters together no more minutes than these, nor more quarters,
#: nor more days, which go for no age.
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
        self._tables = [_Trimmed(QuotaUse), _Trimmed(QuotaUseRollup), _Trimmed(QuotaUseDay, ages=False)]

    def tick(self) -> None:
        """Trim in small transactions, for at most about :data:`TICK_S` seconds."""
        started, now_ms = self._clock.monotonic(), self._clock.now_ms()
        # A node that is back tells again within seconds.
        QuotaNodeReport.objects.filter(at_ms__lt=now_ms - 24 * GONE_AFTER_MS).delete()
        if started >= self._count_at:
            for table in self._tables:
                table.count()
            self._count_at = started + COUNT_EVERY_S
        while sum(table.trim(now_ms) for table in self._tables) and self._clock.monotonic() - started < TICK_S:
            pass


class _Trimmed:
    """One table of uses."""

    def __init__(self, uses: type[QuotaUse] | type[QuotaUseRollup] | type[QuotaUseDay], *, ages: bool = True) -> None:
        self._uses = uses
        self._ages = ages
        #: Rows that are too many.
        self._surplus = 0

    def count(self) -> None:
        # Not by ids: where rows are added to they have gaps.
        self._surplus = max(0, self._uses.objects.count() - MOST_USES)

    def trim(self, now_ms: int) -> int:
        """Remove a batch of rows that are too old, or too many; how many there were."""
        rows = self._uses.objects.order_by("minute", "pk")
        if not self._surplus and not self._ages:
            return 0
        if not self._surplus:
            old = rows.filter(minute__lt=now_ms // 1000 - USES_S).values_list("pk", flat=True)
            return self._uses.objects.filter(pk__in=list(old[:BATCH])).delete()[0]
        first = dict(rows.values_list("pk", "minute")[: min(BATCH, self._surplus)])
        with transaction.atomic(using=LEDGER):
            gone = self._uses.objects.filter(pk__in=list(first)).delete()[0]
            self._tell(max(first.values(), default=0) + self._uses.SPAN_S)
        self._surplus = max(0, self._surplus - len(first)) if first else 0
        return gone

    def _tell(self, since: int) -> None:
        """Of the last span of a batch some may be left: it is not whole."""
        row, _ = UsesTrimmed.objects.get_or_create(uses=self._uses._meta.db_table, defaults={"since": since})
        # What was booked late is older than what went before it.
        if row.since < since:
            UsesTrimmed.objects.filter(pk=row.pk).update(since=since)


def quota_retention() -> QuotaRetention:
    """The duty of the keeper."""
    return QuotaRetention()
