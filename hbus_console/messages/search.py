"""Finding messages in the ledger: every way in has an index, and every page costs the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import islice

from django.db.models import Count, QuerySet

from engine.bus.fact_kinds import FINAL
from engine.core.errors import BadInput
from hbus_console import cursors
from hbus_console.access.permissions import Actor, visible_scopes
from hbus_console.messages import became as by_outcome
from hbus_console.messages.became import Became
from hbus_console.messages.by_event import Happening, last_events, last_of_own, off_index
from hbus_console.messages.models import Identity, LedgerEvent, LedgerMessage
from hbus_console.messages.repeats import Repeated
from hbus_console.messages.sizes import tell_sizes
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

    They are those of the publish; where a repetition, a death or a failure is looked for and nothing exact is named, of
    that.
    """

    id: str = ""
    key: str = ""
    correlation: str = ""
    topic: str = ""
    type: str = ""
    start_ms: int | None = None
    end_ms: int | None = None
    repeated: Repeated = Repeated.UNASKED
    became: Became = Became.UNASKED

    @classmethod
    def read(cls, values: Mapping[str, str]) -> Query:
        """From query parameters, without the time range. Raises ``BadInput``."""
        id_, key, correlation, topic, type_ = (
            values.get(name, "").strip() for name in ("id", "key", "correlation", "topic", "type")
        )
        again, became = Repeated.read(values.get("repeated", "")), Became.read(values.get("outcome", ""))
        if again and became:
            remedy = "Leave one of the two out."
            raise BadInput("Messages are found by an outcome or by a repetition.", remedy=remedy, field="outcome")
        return cls(id_, key, correlation, topic, type_, repeated=again, became=became)

    @property
    def is_exact(self) -> bool:
        """Whether it names something so precisely that no time range is needed."""
        return bool(self.id or self.key or self.correlation)

    @property
    def is_narrowed(self) -> bool:
        """Whether it is about a part of the messages only, whatever is asked about them."""
        return bool(self.is_exact or self.topic or self.type)

    @property
    def is_empty(self) -> bool:
        return not (self.is_narrowed or self.repeated or self.became)

    @property
    def happening(self) -> Happening | None:
        """The events that tell of what is looked for; ``None`` where it does not show by any."""
        return self.repeated.happening() if self.repeated else self.became.happening()

    @property
    def order(self) -> str:
        """What is found comes in the order of its last ... , and what is looked for in a time range is that."""
        if self.is_exact or self.became is Became.UNSETTLED:
            return ""
        orders = {Became.DEAD: "died", Became.RETRYING: "failed", Became.NOBODY_TOLD: "found", Became.LOST: "found"}
        return orders.get(self.became, "repeated" if self.repeated else "")

    @property
    def by_event(self) -> bool:
        """Whether what is found comes in the order of its last event, not of its publish."""
        return bool(self.order)


#: What an attempt that failed is told as.
_FAILED = ("retried", "dead", "parked")


@dataclass
class Outcome:
    """What became of one message so far, as the list says it."""

    settled: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    #: Attempts that failed, also the last one of what died of it, or was parked for it.
    failed: int = 0
    #: Where an attempt failed and it is not done with.
    retrying: set[str] = field(default_factory=set)
    expired: set[str] = field(default_factory=set)
    #: A person settled it there without its being handled.
    skipped: set[str] = field(default_factory=set)
    #: The store is done with it there, and nobody told what became of it.
    passed: set[str] = field(default_factory=set)
    #: The store no longer has it there, and nobody told what became of it before.
    lost: set[str] = field(default_factory=set)
    #: It was cancelled before it could come there.
    cancelled: set[str] = field(default_factory=set)
    #: Why it was refused when it was due, the last time that this was told of it; see :attr:`LedgerMessage.waits`.
    refused: str = ""
    #: How often it was published again under the same idempotency key, and not stored.
    published_again: int = 0
    #: How often it was delivered again to each subscription whose inbox had seen it.
    delivered_again: dict[str, int] = field(default_factory=dict)

    @property
    def decided(self) -> bool:
        """Whether any subscription is done with it."""
        done = self.settled or self.dead or self.expired or self.skipped or self.passed or self.lost
        return bool(done or self.cancelled)


@dataclass(frozen=True)
class FoundMessages:
    """One page, newest first; ``next_cursor`` is empty on the last."""

    messages: list[LedgerMessage]
    next_cursor: str
    #: Where each stands in the order of the list, as a cursor has it.
    places: list[str]
    #: Of a search that judges one message after the other: how many, and when the oldest was published.
    judged: int | None = None
    back_to_ms: int | None = None


def search(actor: Actor, query: Query, cursor: str = "", size: int = PAGE) -> FoundMessages:
    """The messages that fit and that ``actor`` may see. Raises ``BadInput`` for a cursor that no page gave."""
    found = _search(actor, query, cursor, size)
    tell_sizes(found.messages)
    return found


def _search(actor: Actor, query: Query, cursor: str, size: int) -> FoundMessages:
    names = topic_names(visible_scopes(actor))
    if query.topic and names is not None and query.topic not in names:
        return FoundMessages([], "", [])
    rows = _narrowed(query)
    happening = query.happening
    if happening is not None and query.by_event:
        return _by_event(query, happening, rows, names, cursor=cursor, size=size)
    if happening is not None:
        rows = rows.filter(happening.told())
    if query.became is Became.UNSETTLED:
        found = by_outcome.unsettled(lambda place, most: _page(rows, query, names, place, most), cursor, size)
        places = [_place(each) for each in found.messages]
        return FoundMessages(found.messages, found.next_cursor, places, found.judged, found.back_to_ms)
    page, after = _page(rows, query, names, cursor, size)
    return FoundMessages(page, after, [_place(each) for each in page])


def outcomes(messages: Sequence[LedgerMessage]) -> dict[Identity, Outcome]:
    """What became of ``messages``, by their identities, in one query; in two where any of them waits."""
    found = {message.identity: Outcome() for message in messages}
    by_id: dict[tuple[str, str], list[Identity]] = {}
    for identity in found:
        by_id.setdefault(identity[:2], []).append(identity)
    kinds = (*FINAL, *_FAILED)
    events = LedgerEvent.objects.filter(message_id__in={id_ for _, id_ in by_id}, kind__in=kinds).order_by()
    told = events.values_list("topic", "message_id", "source", "kind", "subscription").annotate(times=Count("pk"))
    for topic, message_id, source, kind, subscription, times in told:
        for identity in by_id.get((topic, message_id), ()):
            if source in (None, identity[2]):
                _count(found[identity], kind, subscription, times)
    for outcome in found.values():
        # Its consumer told after all, or it was accepted anew.
        ended = outcome.settled | outcome.dead | outcome.expired | outcome.skipped
        outcome.passed -= ended
        outcome.lost -= ended
        outcome.cancelled -= ended
        outcome.retrying -= ended | outcome.passed | outcome.lost
    _tell_refused(found, [message for message in messages if message.waits])
    return found


def _tell_refused(found: Mapping[Identity, Outcome], waiting: Sequence[LedgerMessage]) -> None:
    if not waiting:
        return
    kinds = ("delayed", "due_refused")
    events = LedgerEvent.objects.filter(message_id__in={each.message_id for each in waiting}, kind__in=kinds)
    rows = events.order_by("at_ms", "pk").values_list("topic", "message_id", "source", "kind", "error")
    for topic, message_id, source, kind, error in rows:
        if (outcome := found.get((topic, message_id, source or ""))) is not None:
            # Accepted anew, it is not refused yet.
            outcome.refused = error if kind == "due_refused" else ""


def _count(outcome: Outcome, kind: str, subscription: str, times: int) -> None:
    outcome.failed += times if kind in _FAILED else 0
    if kind in ("retried", "parked"):
        outcome.retrying.add(subscription)
    elif kind != "deduplicated":
        getattr(outcome, kind).add(subscription)
    elif subscription:
        # Its effects are committed, even where the consumer died before it could say so.
        outcome.settled.add(subscription)
        outcome.delivered_again[subscription] = outcome.delivered_again.get(subscription, 0) + times
    else:
        outcome.published_again += times


def within(query: Query, start_ms: int | None, end_ms: int | None) -> Query:
    """``query`` in a time range."""
    return replace(query, start_ms=start_ms, end_ms=end_ms)


def _page(
    rows: QuerySet[LedgerMessage], query: Query, topics: Sequence[str] | None, cursor: str, size: int
) -> tuple[list[LedgerMessage], str]:
    """The newest beyond ``cursor``, and where the next page begins."""
    if cursor:
        published_ms, number = cursors.read(cursor, 2)
        rows = rows.filter(cursors.beyond({"-published_ms": published_ms, "-pk": number}))
        rows = rows.filter(published_ms__lte=published_ms)
    if topics is None or query.topic:
        found = list(rows[: size + 1])
    elif query.is_exact or len(topics) > _MERGED_TOPICS:
        found = list(rows.filter(**{f"{'its_topic' if query.id else 'topic'}__in": topics})[: size + 1])
    else:
        found = _merged(rows, topics, size + 1)
    shown, tail = cursors.cut(found, size)
    return shown, _place(tail) if tail else ""


def _place(message: LedgerMessage) -> str:
    return cursors.written(message.published_ms, message.pk)


def _by_event(
    query: Query,
    happening: Happening,
    rows: QuerySet[LedgerMessage],
    names: Sequence[str] | None,
    *,
    cursor: str,
    size: int,
) -> FoundMessages:
    """The messages of ``rows`` in the order of their last events."""
    topics = [query.topic] if query.topic else names
    last = last_events(happening, rows, topics=topics, start_ms=query.start_ms, end_ms=query.end_ms)
    if cursor:
        at_ms, number = cursors.read(cursor, 2)
        last = last.filter(cursors.beyond({"-at_ms": at_ms, "-pk": number})).filter(at_ms__lte=at_ms)
    found, tail = cursors.cut(last.values_list("topic", "message_id", "source", "at_ms", "pk")[: size + 1], size)
    # The first is the last that happened.
    place: dict[tuple[str, str, str | None], tuple[int, int]] = {}
    for topic, message_id, source, at_ms, number in found:
        place.setdefault((topic, message_id, source), (at_ms, number))
    # What tells no source is the last of some message with its id: not of one that has a later of its own.
    unsure = {message_id for _, message_id, source in place if source is None}
    own = last_of_own(happening, rows.filter(message_id__in=unsure), end_ms=query.end_ms) if unsure else {}
    placed = []
    for row in rows.filter(message_id__in={message_id for _, message_id, _ in place}):
        told, untold = place.get(row.identity), place.get((row.topic, row.message_id, None))
        if untold and own.get(row.pk, untold) > untold:
            untold = None
        if last_of_it := max(filter(None, (told, untold)), default=None):
            placed.append((last_of_it, row.pk, row))
    placed.sort(key=lambda each: each[:2], reverse=True)
    places = [cursors.written(*last_of_it, number) for last_of_it, number, _ in placed]
    return FoundMessages([row for *_, row in placed], cursors.written(*tail[3:]) if tail else "", places)


def _narrowed(query: Query) -> QuerySet[LedgerMessage]:
    rows = LedgerMessage.objects.order_by("-published_ms", "-pk")
    if query.id:
        if len(query.id) >= _ID_PREFIX:
            rows = rows.filter(message_id__gte=query.id, message_id__lt=query.id + "\U0010ffff")
        else:
            rows = rows.filter(message_id=query.id)
    exact = {"key": query.key, "correlation_id": query.correlation, "topic": query.topic, "type": query.type}
    if query.id or query.by_event:
        rows = rows.alias(its_topic=off_index("topic"), its_type=off_index("type"))
        exact |= {"topic": "", "type": "", "its_topic": query.topic, "its_type": query.type}
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if query.by_event:
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
