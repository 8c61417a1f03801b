"""Keeps the evidence bounded: the newest facts of engines without a ledger of their own, and some months of notices."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Max, Min

from engine.core.clock import Clock, SystemClock
from hbus_console.evidence.models import Evidence, Notice

#: Notices are kept so long: they are few.
NOTICES_MS = 90 * 24 * 3_600_000
#: How often notices are trimmed.
NOTICES_EVERY_MS = 600_000
#: Rows removed in one transaction: the collector waits for no longer than that.
BATCH = 5_000
#: A tick hands control back after so many seconds, even with work left.
TICK_S = 5.0


class EvidenceRetention:
    """A duty. Facts go oldest first, by the order in which they were booked; notices go with their time."""

    name = "evidence-retention"
    interval_s = 30.0

    def __init__(self, max_facts: int, *, clock: Clock | None = None) -> None:
        self._max_facts = max_facts
        self._clock = clock or SystemClock()
        self._notices_due_ms = 0

    def tick(self) -> None:
        """Trim in small transactions, for at most about :data:`TICK_S` seconds."""
        started = self._clock.monotonic()
        while trim_evidence(self._max_facts, BATCH) and self._clock.monotonic() - started < TICK_S:
            pass
        now_ms = self._clock.now_ms()
        if now_ms >= self._notices_due_ms:
            self._notices_due_ms = now_ms + NOTICES_EVERY_MS
            Notice.objects.filter(at_ms__lt=now_ms - NOTICES_MS).delete()


def evidence_retention() -> EvidenceRetention:
    """The duty of the keeper."""
    return EvidenceRetention(settings.EVIDENCE_MAX_FACTS)


def trim_evidence(most: int, limit: int) -> int:
    """Remove up to ``limit`` of the oldest rows beyond the newest ``most``; returns how many."""
    ends = Evidence.objects.aggregate(first=Min("pk"), last=Max("pk"))
    if ends["first"] is None:
        return 0
    # Ids have no gaps worth counting; a COUNT of a million rows every tick would cost more than it tells.
    through = min(ends["last"] - most, ends["first"] + limit - 1)
    return Evidence.objects.filter(pk__lte=through).delete()[0] if through >= ends["first"] else 0
