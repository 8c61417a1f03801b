"""Keeps the ledger bounded: the newest messages with their events, two weeks of samples."""

from __future__ import annotations

from django.db import transaction
from django.db.models import F, Min

from engine.core.clock import Clock, SystemClock
from hbus_console.evidence.router import LEDGER
from hbus_console.evidence.totals import MOST_OF_A_ROW, total
from hbus_console.messages import lag_history
from hbus_console.messages.lag_history import LagHistory
from hbus_console.messages.models import FINE_MS, FlowRollup, FlowSample, LedgerEvent, LedgerMessage, LedgerStack
from hbus_console.messages.places import let_go
from hbus_console.messages.reach import id_ends

DAY_MS = 24 * 3_600_000
#: Samples are kept so long.
SAMPLES_MS = 14 * DAY_MS
COARSE_MS = 300_000
#: A stack trace is kept so much longer than the attempts that were made when it was told last.
STACKS_LATE_MS = 3_600_000
#: How often samples are trimmed.
SAMPLES_EVERY_MS = 600_000
#: Rows removed in one transaction: the collector waits for no longer than that.
BATCH = 5_000
#: A tick hands control back after so many seconds, even with work left.
TICK_S = 5.0

_COUNTS = (
    "published", "deduplicated", "settled", "settled_first", "retried", "dead", "expired", "duration_us", "failed",
)  # fmt: skip


class LedgerRetention:
    """A duty. Messages go oldest first, by the order in which they were booked; events go with their time."""

    name = "ledger-retention"
    interval_s = 30.0

    def __init__(self, max_messages: int, *, clock: Clock | None = None) -> None:
        self._max_messages = max_messages
        self._clock = clock or SystemClock()
        self._samples_due_ms = 0
        self._lag = LagHistory()

    def tick(self) -> None:
        """Trim in small transactions, for at most about :data:`TICK_S` seconds."""
        started = self._clock.monotonic()
        while self._clock.monotonic() - started < TICK_S:
            lag = self._lag.thin(self._clock.now_ms(), BATCH)
            if not (self._trim_messages() + self._trim_events() + self._fold_flow() + lag):
                break
        now_ms = self._clock.now_ms()
        if now_ms >= self._samples_due_ms:
            self._samples_due_ms = now_ms + SAMPLES_EVERY_MS
            _trim_samples(now_ms)
            _trim_stacks()

    def _trim_messages(self) -> int:
        first, last = id_ends()
        if first is None or last is None:
            return 0
        # Ids have no gaps worth counting; a COUNT of a million rows every tick would cost more than it tells.
        through = min(last - self._max_messages, first + BATCH - 1)
        if through < first:
            return 0
        return let_go(LedgerMessage.objects.filter(pk__lte=through))

    def _is_full(self) -> bool:
        first, last = id_ends()
        return first is not None and last is not None and last - first + 1 >= self._max_messages

    def _trim_events(self) -> int:
        """Events from before the oldest message kept. They were booked in about the order of their times.

        While the ledger is not full no message has gone, and what is older than all of them is of one whose publisher
        never told of it: that is booked minutes after its attempts.
        """
        oldest = _oldest_ms() if self._is_full() else None
        if oldest is None:
            return 0
        first = LedgerEvent.objects.order_by("pk").values_list("pk", "at_ms")[:BATCH]
        old = [pk for pk, at_ms in first if at_ms < oldest]
        if not old:
            return 0
        return let_go(LedgerEvent.objects.filter(pk__gte=old[0], pk__lte=old[-1], at_ms__lt=oldest))

    def _fold_flow(self) -> int:
        """Replace one span of fine samples by one coarse sample for each topic and subscription."""
        edge = self._clock.now_ms() - FINE_MS
        edge -= edge % COARSE_MS
        start = self._next_fine(edge)
        if start is None:
            return 0
        end = start - start % COARSE_MS + COARSE_MS
        with transaction.atomic(using=LEDGER):
            span = FlowSample.objects.filter(bucket_ms__gte=end - COARSE_MS, bucket_ms__lt=end)
            folded = [
                FlowSample(
                    topic=topic,
                    subscription=group,
                    bucket_ms=end - COARSE_MS,
                    **dict(zip(_COUNTS, sums, strict=True)),
                )
                for topic, group, *sums in span.values_list("topic", "subscription").annotate(
                    **{f"sum_{name}": total(name, MOST_OF_A_ROW) for name in _COUNTS}
                )
            ]
            removed = span.delete()[0]
            FlowSample.objects.bulk_create(folded)
        return removed

    def _next_fine(self, edge: int) -> int | None:
        """The time of the oldest sample before ``edge`` that is not folded yet."""
        fine = FlowSample.objects.filter(bucket_ms__lt=edge).alias(rest=F("bucket_ms") % COARSE_MS).exclude(rest=0)
        return fine.order_by("bucket_ms").values_list("bucket_ms", flat=True).first()


def _oldest_ms() -> int | None:
    """When the oldest message kept was published."""
    oldest: int | None = LedgerMessage.objects.aggregate(oldest=Min("published_ms"))["oldest"]
    return oldest


def _trim_stacks() -> None:
    """Stack traces that no event kept has: they are told again once a minute while attempts fail with them."""
    oldest = _oldest_ms()
    if oldest is not None:
        LedgerStack.objects.filter(at_ms__lt=oldest - STACKS_LATE_MS).delete()


def _trim_samples(now_ms: int) -> None:
    lag_history.end(now_ms)
    FlowSample.objects.filter(bucket_ms__lt=now_ms - SAMPLES_MS).delete()
    FlowRollup.objects.filter(bucket_ms__lt=now_ms - SAMPLES_MS).delete()
