"""Rows of the ledger as the lake has them, read by their numbers in pages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from django.db.models import QuerySet, Value
from django.db.models.functions import Coalesce

from engine.pipeline.lake.schema import KEY_HASH, SCHEMAS
from engine.pipeline.lake.state import Kind
from engine.pipeline.source.columns import INSTANT
from hbus_console.messages.models import WAITS, LedgerEvent, LedgerMessage, LedgerRelease
from hbus_console.messages.places import LedgerAt, LedgerRows

#: Rows read at once.
PAGE = 10_000


@dataclass(frozen=True, slots=True)
class LedgerPage:
    """Some rows, in the order in which they are taken."""

    rows: pa.RecordBatch
    #: When each was published, or happened.
    at_ms: Sequence[int]


@dataclass(frozen=True, slots=True)
class LedgerSource:
    """The rows of one kind. What lies beyond one place and not beyond another is a stretch: a row is in just one of
    those that follow each other."""

    kind: Kind
    model: LedgerRows
    #: By the lake's columns: a field of the model. The first is the row's number.
    columns: dict[str, str]
    #: What happened when, of these.
    time: str
    #: Those in which an empty text, or a 0, says that there is none.
    may_lack: frozenset[str]

    def beyond(self, at: LedgerAt, upto: LedgerAt, topics: Collection[str]) -> Iterator[LedgerPage]:
        """Of a stretch, the rows of these topics: of one moment if the caller sees to that."""
        if self.model is LedgerMessage:
            yield from self._released(at, upto, topics)
        after = at.row_id
        while rows := list(self._booked(after, upto, topics).order_by("pk").values_list(*self.columns.values())[:PAGE]):
            after = rows[-1][0]
            yield self._page(rows)

    def has_beyond(self, at: LedgerAt, upto: LedgerAt, topics: Collection[str]) -> bool:
        """Whether there is any."""
        if self.model is LedgerMessage and upto.release_id > at.release_id:
            passed_by = _of_topics(LedgerMessage.objects.filter(pk__in=_releases(at, upto).values("row_id")), topics)
            if passed_by.exists():
                return True
        return self._booked(at.row_id, upto, topics).exists()

    def _booked(self, after: int, upto: LedgerAt, topics: Collection[str]) -> QuerySet[Any]:
        rows = _of_topics(self.model.objects.filter(pk__gt=after, pk__lte=upto.row_id), topics)
        if self.model is LedgerMessage:
            # One that was published after the place was marked is of a later stretch.
            later = LedgerRelease.objects.filter(pk__gt=upto.release_id).values("row_id")
            rows = rows.exclude(WAITS).exclude(pk__in=later)
        return rows

    def _released(self, at: LedgerAt, upto: LedgerAt, topics: Collection[str]) -> Iterator[LedgerPage]:
        """Those that earlier stretches left aside because they waited, in the order in which they were published."""
        while numbers := list(_releases(at, upto).order_by("pk").values_list("pk", "row_id")[:PAGE]):
            part = LedgerAt(at.row_id, at.release_id), LedgerAt(upto.row_id, numbers[-1][0])
            rows = _of_topics(LedgerMessage.objects.filter(pk__in=_releases(*part).values("row_id")), topics)
            found = {row[0]: row for row in rows.values_list(*self.columns.values())}
            if page := [found[row_id] for _, row_id in numbers if row_id in found]:
                yield self._page(page)
            at = LedgerAt(at.row_id, numbers[-1][0])

    def _page(self, rows: Sequence[tuple[Any, ...]]) -> LedgerPage:
        values = dict(zip(self.columns, zip(*rows, strict=True), strict=True))
        fields = [field for field in SCHEMAS[self.kind] if field.name != KEY_HASH]
        arrays = [self._array(field, values[field.name]) for field in fields]
        return LedgerPage(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)), values[self.time])

    def _array(self, field: pa.Field, values: Sequence[Any]) -> pa.Array:
        if field.name in self.may_lack:
            values = [value or None for value in values]
        if field.type == INSTANT:
            return pa.array(values, pa.int64()).cast(pa.timestamp("ms", tz="UTC")).cast(INSTANT)
        return pa.array(values, field.type)


def _releases(at: LedgerAt, upto: LedgerAt) -> QuerySet[LedgerRelease]:
    return LedgerRelease.objects.filter(pk__gt=at.release_id, pk__lte=upto.release_id, row_id__lte=at.row_id)


def _of_topics(rows: QuerySet[Any], topics: Collection[str]) -> QuerySet[Any]:
    # Kept from the index of topics: a stretch is short, and SQLite would as soon walk all messages of each topic.
    found: QuerySet[Any] = rows.alias(its_topic=Coalesce("topic", Value(""))).filter(its_topic__in=topics)
    return found


_MESSAGE = ("message_id", "topic", "type", "source", "key", "correlation_id", "causation_id", "trace_id", "position")
_EVENT = ("message_id", "source", "topic", "subscription", "kind")
_OF_IT = ("node", "error", "fingerprint", "detail", "stack_id")

SOURCES = (
    LedgerSource(
        Kind.PUBLISHED,
        LedgerMessage,
        {
            "row_id": "pk",
            **{name: name for name in (*_MESSAGE, "size")},
            "published_at": "published_ms",
            "due_at": "due_ms",
            "stored_us": "stored_us",
        },
        time="published_at",
        may_lack=frozenset((*_MESSAGE, "due_at", "stored_us")),
    ),
    LedgerSource(
        Kind.DELIVERIES,
        LedgerEvent,
        {
            "row_id": "pk",
            **{name: name for name in (*_EVENT, "attempt", "duration_us", *_OF_IT)},
            "at": "at_ms",
            "due_at": "due_ms",
        },
        time="at",
        may_lack=frozenset(("subscription", "due_at", *_OF_IT)),
    ),
)
