"""Forgets inbox entries that no delivery can repeat any more."""

from __future__ import annotations

from django.db.models import Max

from engine.core.clock import Clock, SystemClock
from hbus_console.outbox.models import InboxEntry
from hbus_console.topics.models import Topic

#: Never forgotten earlier, whatever the topics say.
LEAST_MS = 48 * 3600 * 1000
#: Entries removed in one statement; keeps the writer's turn short.
CHUNK = 5_000
#: Statements in one tick.
CHUNKS = 20


class InboxRetention:
    """A keeper duty. An entry is kept as long as any topic keeps its messages or remembers idempotency keys.

    A message that is settled, still stored and delivered once more (a lost settlement, a restored store) must meet its
    entry; once no topic holds messages that old, none can come.
    """

    name = "inbox-retention"
    interval_s = 300.0

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def tick(self) -> None:
        """Remove what is too old, in chunks."""
        oldest_ms = self._clock.now_ms() - keep_ms()
        for _ in range(CHUNKS):
            chunk = InboxEntry.objects.filter(at_ms__lt=oldest_ms).order_by("at_ms").values("pk")[:CHUNK]
            removed, _ = InboxEntry.objects.filter(pk__in=chunk).delete()
            if removed < CHUNK:
                return


def keep_ms() -> int:
    """How long an inbox entry is kept, in milliseconds."""
    longest = Topic.objects.aggregate(hours=Max("retention_hours"), window=Max("idempotency_window_s"))
    hours, window_s = longest["hours"] or 0, longest["window"] or 0
    # Twice the retention: trimming runs late and never beyond what is unsettled.
    return max(LEAST_MS, 2 * hours * 3_600_000, window_s * 1000 + LEAST_MS)
