"""Messages found by what happened to them: from the evidence of it, newest first, which for rare things is at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Coalesce

from hbus_console.messages.models import LedgerEvent, LedgerMessage


@dataclass(frozen=True)
class Happening:
    """What is looked for, unordered and twice: as it is walked in order of time, and as it is asked of one message.

    They are the same events. An index of one kind of events serves the first, and would mislead the second.
    """

    walked: QuerySet[LedgerEvent]
    of_message: QuerySet[LedgerEvent]

    def told(self) -> Exists:
        """Whether it is told of a message: a condition for a query of messages that is narrow already."""
        events = self.of_message.alias(its_topic=off_index("topic"))
        return Exists(events.filter(message_id=OuterRef("message_id"), its_topic=OuterRef("topic")))


def off_index(field: str) -> Coalesce:
    """The column as no index has it.

    For a query that shall look single messages up by their ids: SQLite, which keeps no statistics, would as soon walk
    all messages of the topic, for each.
    """
    return Coalesce(field, Value(""))


def off_time(field: str) -> Coalesce:
    """Likewise of a number, for a query that has few rows by their ids already."""
    return Coalesce(field, Value(0))


def last_events(
    happening: Happening,
    messages: QuerySet[LedgerMessage],
    *,
    topics: Sequence[str] | None,
    start_ms: int | None,
    end_ms: int | None,
) -> QuerySet[LedgerEvent]:
    """The last such event of each of ``messages`` in a time range, newest first; ``topics`` of ``None`` means all."""
    before_end = Q() if end_ms is None else Q(at_ms__lt=end_ms)
    later = Q(at_ms__gt=OuterRef("at_ms")) | Q(at_ms=OuterRef("at_ms"), pk__gt=OuterRef("pk"))
    same_message = happening.of_message.alias(its_topic=off_index("topic")).filter(
        before_end, message_id=OuterRef("message_id"), its_topic=OuterRef("topic")
    )
    found = happening.walked.filter(
        before_end,
        ~Exists(same_message.filter(later)),
        Exists(
            messages.order_by()
            .alias(its_topic=off_index("topic"))
            .filter(message_id=OuterRef("message_id"), its_topic=OuterRef("topic"))
        ),
    )
    if start_ms is not None:
        found = found.filter(at_ms__gte=start_ms)
    if topics is not None:
        found = found.filter(topic__in=topics)
    return found.order_by("-at_ms", "-pk")
