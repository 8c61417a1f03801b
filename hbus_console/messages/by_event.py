"""Messages found by what happened to them: from the evidence of it, newest first, which for rare things is at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from hbus_console.messages.models import LedgerEvent, LedgerMessage


def of_same_source() -> Q:
    """Of events: that they are of the message that the outer query's event is of, of those with its topic and id."""
    return Q(source=None) | Q(source=Coalesce(OuterRef("source"), F("source")))


@dataclass(frozen=True)
class Happening:
    """What is looked for, unordered and twice: as it is walked in order of time, and as it is asked of one message.

    They are the same events. An index of one kind of events serves the first, and would mislead the second.
    """

    walked: QuerySet[LedgerEvent]
    of_message: QuerySet[LedgerEvent]

    def told(self) -> Exists:
        """Whether it is told of a message: a condition for a query of messages that is narrow already."""
        return Exists(_of_message(self))


def _of_message(happening: Happening) -> QuerySet[LedgerEvent]:
    """Those of the message of the outer query."""
    events = happening.of_message.alias(its_topic=off_index("topic"))
    of_its_source = Q(source=None) | Q(source=OuterRef("source"))
    return events.filter(of_its_source, message_id=OuterRef("message_id"), its_topic=OuterRef("topic"))


def off_index(field: str) -> Coalesce:
    """The column as no index has it.

    For a query that shall look single messages up by their ids: SQLite, which keeps no statistics, would as soon walk
    all messages of the topic, for each.
    """
    return Coalesce(field, Value(""))


def off_time(field: str) -> Coalesce:
    """Likewise of a number, for a query that has few rows by their ids already."""
    return Coalesce(field, Value(0))


def last_of_own(
    happening: Happening, messages: QuerySet[LedgerMessage], *, end_ms: int | None
) -> dict[int, tuple[int, int]]:
    """Number of a message → instant and number of the last such event that tells its source; without those of none."""
    own = _of_message(happening).filter(_before(end_ms), source=OuterRef("source")).order_by("-at_ms", "-pk")
    found = messages.order_by().annotate(own_ms=Subquery(own.values("at_ms")[:1]), own=Subquery(own.values("pk")[:1]))
    return {pk: (at_ms, number) for pk, at_ms, number in found.values_list("pk", "own_ms", "own") if number is not None}


def last_events(
    happening: Happening,
    messages: QuerySet[LedgerMessage],
    *,
    topics: Sequence[str] | None,
    start_ms: int | None,
    end_ms: int | None,
) -> QuerySet[LedgerEvent]:
    """The last such event of each of ``messages`` in a time range, newest first; ``topics`` of ``None`` means all."""
    before_end = _before(end_ms)
    event = {name: OuterRef(OuterRef(name)) for name in ("at_ms", "pk")}
    later = Q(at_ms__gt=event["at_ms"]) | Q(at_ms=event["at_ms"], pk__gt=event["pk"])
    found = happening.walked.filter(
        before_end,
        Exists(
            messages.order_by()
            .alias(its_topic=off_index("topic"))
            # The message's own source where its event tells none: then it may be of several.
            .filter(
                ~Exists(_of_message(happening).filter(before_end, later)),
                message_id=OuterRef("message_id"),
                its_topic=OuterRef("topic"),
                source=Coalesce(OuterRef("source"), F("source")),
            )
        ),
    )
    if start_ms is not None:
        found = found.filter(at_ms__gte=start_ms)
    if topics is not None:
        found = found.filter(topic__in=topics)
    return found.order_by("-at_ms", "-pk")


def _before(end_ms: int | None) -> Q:
    return Q() if end_ms is None else Q(at_ms__lt=end_ms)
