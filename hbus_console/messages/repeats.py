"""Messages that came more than once: published again under the same idempotency key, or delivered again after an inbox
had seen them. Found from the evidence of the repetition, which is rare and has indexes of its own."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Coalesce

from engine.core.errors import BadInput
from hbus_console.messages.models import DEDUPLICATED, LedgerEvent, LedgerMessage


class Repeated(StrEnum):
    """Which repetition is looked for."""

    #: It does not matter.
    UNASKED = ""
    ANY = "any"
    #: A publish that repeated an idempotency key: nothing was stored.
    PUBLISH = "publish"
    #: A delivery of what the subscription's inbox had seen: the handler was not run.
    DELIVERY = "delivery"

    @classmethod
    def read(cls, text: str) -> Repeated:
        """From a query parameter. Raises ``BadInput``."""
        try:
            return cls(text.strip())
        except ValueError as error:
            remedy = "Ask for any, publish or delivery, or leave it out."
            raise BadInput(f"There is no repetition {text[:40]!r}.", remedy=remedy, field="repeated") from error


def events(which: Repeated) -> QuerySet[LedgerEvent]:
    """The evidence of repetitions of a kind, unordered."""
    found = LedgerEvent.objects.filter(DEDUPLICATED)
    if which is Repeated.PUBLISH:
        return found.filter(subscription="")
    return found.exclude(subscription="") if which is Repeated.DELIVERY else found


def repeated(which: Repeated) -> Exists:
    """Whether a message was repeated: a condition for a query of messages that is narrow already."""
    told = events(which).alias(its_topic=off_index("topic"))
    return Exists(told.filter(message_id=OuterRef("message_id"), its_topic=OuterRef("topic")))


def off_index(field: str) -> Coalesce:
    """The column as no index has it.

    For a query that shall look single messages up by their ids: SQLite, which keeps no statistics, would as soon walk
    all messages of the topic, for each.
    """
    return Coalesce(field, Value(""))


def last_repetitions(
    which: Repeated,
    messages: QuerySet[LedgerMessage],
    *,
    topics: Sequence[str] | None,
    start_ms: int | None,
    end_ms: int | None,
) -> QuerySet[LedgerEvent]:
    """The last repetition of each of ``messages`` in a time range, newest first; ``topics`` of ``None`` means all."""
    span = events(which)
    if end_ms is not None:
        span = span.filter(at_ms__lt=end_ms)
    later = Q(at_ms__gt=OuterRef("at_ms")) | Q(at_ms=OuterRef("at_ms"), pk__gt=OuterRef("pk"))
    found = span.filter(
        ~Exists(span.filter(later, message_id=OuterRef("message_id"), topic=OuterRef("topic"))),
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
