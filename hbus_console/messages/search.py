"""Finding messages in the ledger: every way in has an index, and every page costs the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import islice

from django.db.models import Count, Max, Min, QuerySet

from hbus_console import cursors
from hbus_console.access.permissions import GLOBAL, Actor, visible_scopes
from hbus_console.messages.models import LedgerEvent, LedgerMessage
from hbus_console.messages.repeats import Repeated, last_repetitions, off_index, repeated
from hbus_console.topics.scopes import topic_names

PAGE = 50
MOST = 500
#: Up to so many topics are read one by one and merged, each from its own index; more are filtered in time order.
_MERGED_TOPICS = 60
#: An id may be given by its beginning once it is this long.
_ID_PREFIX = 6


@dataclass(frozen=True)
class Query:
    """What to look for; everything may be left out. Times are epoch milliseconds, the end exclusive.

    They are those of the publish; where a repetition is looked for and nothing exact is named, of the repetition.
    """

    id: str = ""
    key: str = ""
    correlation: str = ""
    topic: str = ""
    type: str = ""
    start_ms: int | None = None
    end_ms: int | None = None
    repeated: Repeated = Repeated.UNASKED

    @classmethod
    def read(cls, values: Mapping[str, str]) -> Query:
        """From query parameters, without the time range. Raises ``BadInput``."""
        id_, key, correlation, topic, type_ = (
            values.get(name, "").strip() for name in ("id", "key", "correlation", "topic", "type")
        )
        again = Repeated.read(values.get("repeated", ""))
        return cls(id_, key, correlation, topic, type_, repeated=again)

    @property
    def is_exact(self) -> bool:
        """Whether it names something so precisely that no time range is needed."""
        return bool(self.id or self.key or self.correlation)

    @property
    def is_empty(self) -> bool:
        return not (self.is_exact or self.topic or self.type or self.repeated)

    @property
    def by_repetition(self) -> bool:
        """Whether what is found comes in the order of its last repetition, not of its publish."""
        return bool(self.repeated) and not self.is_exact


@dataclass
class Outcome:
    """What became of one message so far, as the list says it."""

    settled: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    retried: int = 0
    expired: set[str] = field(default_factory=set)
    #: How often it was published again under the same idempotency key, and not stored.
    published_again: int = 0
    #: How often it was delivered again to each subscription whose inbox had seen it.
    delivered_again: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class FoundMessages:
    """One page, newest first; ``next_cursor`` is empty on the last."""

    messages: list[LedgerMessage]
    next_cursor: str


@dataclass(frozen=True)
class Reach:
    """How far back the ledger goes; ``since_ms`` is ``None`` while it is empty.

    ``messages`` is ``None`` for who may not see them all: they are of every topic.
    """

    messages: int | None
    since_ms: int | None


def search(actor: Actor, query: Query, cursor: str = "", size: int = PAGE) -> FoundMessages:
    """The messages that fit and that ``actor`` may see. Raises ``BadInput`` for a cursor that no page gave."""
    names = topic_names(visible_scopes(actor))
    if query.topic and names is not None and query.topic not in names:
        return FoundMessages([], "")
    rows = _narrowed(query)
    if query.by_repetition:
        return _by_repetition(rows, query, names, cursor, size)
    if query.repeated:
        rows = rows.filter(repeated(query.repeated))
    if cursor:
        published_ms, number = cursors.read(cursor, 2)
        rows = rows.filter(cursors.beyond({"-published_ms": published_ms, "-pk": number}))
        rows = rows.filter(published_ms__lte=published_ms)
    if names is None or query.topic:
        found = list(rows[: size + 1])
    elif query.is_exact or len(names) > _MERGED_TOPICS:
        found = list(rows.filter(**{f"{'its_topic' if query.id else 'topic'}__in": names})[: size + 1])
    else:
        found = _merged(rows, names, size + 1)
    shown, tail = cursors.cut(found, size)
    return FoundMessages(shown, cursors.written(tail.published_ms, tail.pk) if tail else "")


def outcomes(messages: Sequence[LedgerMessage]) -> dict[tuple[str, str], Outcome]:
    """What became of ``messages``, by their identities, in one query."""
    found = {message.identity: Outcome() for message in messages}
    kinds = ("settled", "retried", "dead", "expired", "deduplicated")
    events = LedgerEvent.objects.filter(message_id__in={id_ for _, id_ in found}, kind__in=kinds).order_by()
    told = events.values_list("topic", "message_id", "kind", "subscription").annotate(times=Count("pk"))
    for topic, message_id, kind, subscription, times in told:
        outcome = found.get((topic, message_id))
        if outcome is None:
            # Of a message of another topic that has the same id.
            continue
        if kind == "retried":
            outcome.retried += times
        elif kind != "deduplicated":
            getattr(outcome, kind).add(subscription)
        elif subscription:
            # Its effects are committed, even where the consumer died before it could say so.
            outcome.settled.add(subscription)
            outcome.delivered_again[subscription] = times
        else:
            outcome.published_again = times
    return found


def reach(actor: Actor) -> Reach:
    """From the ends of two indexes. The number is exact as long as the ledger's ids have no gaps."""
    first, last = id_ends()
    whole = GLOBAL in visible_scopes(actor)
    if last is None or first is None:
        return Reach(0 if whole else None, None)
    oldest = LedgerMessage.objects.aggregate(oldest=Min("published_ms"))["oldest"]
    return Reach(last - first + 1 if whole else None, oldest)


def id_ends() -> tuple[int | None, int | None]:
    """The lowest and the highest id. Asked for together, SQLite would walk the whole table."""
    first = LedgerMessage.objects.aggregate(first=Min("pk"))["first"]
    return first, LedgerMessage.objects.aggregate(last=Max("pk"))["last"]


def within(query: Query, start_ms: int | None, end_ms: int | None) -> Query:
    """``query`` in a time range."""
    return replace(query, start_ms=start_ms, end_ms=end_ms)


def _by_repetition(
    rows: QuerySet[LedgerMessage], query: Query, topics: Sequence[str] | None, cursor: str, size: int
) -> FoundMessages:
    if query.topic:
        topics = [query.topic]
    last = last_repetitions(query.repeated, rows, topics=topics, start_ms=query.start_ms, end_ms=query.end_ms)
    if cursor:
        at_ms, number = cursors.read(cursor, 2)
        last = last.filter(cursors.beyond({"-at_ms": at_ms, "-pk": number})).filter(at_ms__lte=at_ms)
    found, tail = cursors.cut(last.values_list("topic", "message_id", "at_ms", "pk")[: size + 1], size)
    place = {(topic, message_id): number for number, (topic, message_id, _, _) in enumerate(found)}
    same_ids = rows.filter(message_id__in={message_id for _, message_id in place})
    messages = sorted(
        (row for row in same_ids if row.identity in place), key=lambda row: (place[row.identity], -row.pk)
    )
    return FoundMessages(messages, cursors.written(*tail[2:]) if tail else "")


def _narrowed(query: Query) -> QuerySet[LedgerMessage]:
    rows = LedgerMessage.objects.order_by("-published_ms", "-pk")
    if query.id:
        if len(query.id) >= _ID_PREFIX:
            rows = rows.filter(message_id__gte=query.id, message_id__lt=query.id + "\U0010ffff")
        else:
            rows = rows.filter(message_id=query.id)
    exact = {"key": query.key, "correlation_id": query.correlation, "topic": query.topic, "type": query.type}
    if query.id or query.by_repetition:
        rows = rows.alias(its_topic=off_index("topic"), its_type=off_index("type"))
        exact |= {"topic": "", "type": "", "its_topic": query.topic, "its_type": query.type}
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if query.by_repetition:
        return rows
    if query.start_ms is not None:
        rows = rows.filter(published_ms__gte=query.start_ms)
    if query.end_ms is not None:
        rows = rows.filter(published_ms__lt=query.end_ms)
    return rows


def _merged(rows: QuerySet[LedgerMessage], names: Sequence[str], size: int) -> list[LedgerMessage]:
    """The newest of several topics. Asked for all at once, the database would sort every message of them."""
    streams = (rows.filter(topic=name)[:size] for name in names)
    newest = merge(*streams, key=lambda row: (row.published_ms, row.pk), reverse=True)
    return list(islice(newest, size))
