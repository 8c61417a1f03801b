"""Turns the facts of the bus into rows of the message ledger, from columns to rows in bulk.

Written in SQL that SQLite and PostgreSQL share: going through model instances costs more than the insert itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress, groupby, repeat
from operator import add

from django.db import connections

from engine.bus.fact_kinds import FACTS, Books, BusKind
from engine.bus.facts import BusFields
from engine.core.facts import MOST_THINGS, FactBatch
from engine.core.stack_text import STACK_BYTES
from hbus_console.evidence.columns import INT4, Row, each, numbers, texts, whole
from hbus_console.evidence.inserting import Insert
from hbus_console.evidence.kinds import kinds
from hbus_console.evidence.router import LEDGER
from hbus_console.evidence.rows import NOTICES
from hbus_console.evidence.totals import MOST_OF_A_ROW
from hbus_console.messages.models import LONGEST_ID, LONGEST_SOURCE, LONGEST_STACK_ID, FlowRollup, FlowSample

BUCKET_MS = FlowSample.BUCKET_S * 1000
ROLLUP_MS = FlowRollup.BUCKET_S * 1000
#: The longest that a handler or an append is taken to have lasted: a year.
_LONGEST_US = 366 * 86_400_000_000

#: What a flow sample counts.
_COLUMNS = (
    "published", "deduplicated", "settled", "settled_first", "retried", "dead", "expired", "duration_us", "failed",
)  # fmt: skip
_SETTLED_FIRST, _DURATION = _COLUMNS.index("settled_first"), _COLUMNS.index("duration_us")

_MESSAGES = Insert(
    "ledger_ledgermessage",
    ("message_id", "topic", "type", "source", "key", "correlation_id", "causation_id", "trace_id", "position", "size",
     "published_ms", "due_ms", "stored_us"),
    # A delayed message is met twice: accepted, then published, in either order. Not every transport tells a position,
    # but each takes a time to append. Where it lies already, another of its id and source is another message: whoever
    # chose these names does not take the place of the first.
    """ON CONFLICT (message_id, topic, source) DO UPDATE
    SET position = excluded.position, size = excluded.size, published_ms = excluded.published_ms,
    stored_us = excluded.stored_us
    WHERE (excluded.position <> '' OR excluded.stored_us > 0)
    AND ((ledger_ledgermessage.position <> '' AND ledger_ledgermessage.position = excluded.position)
        OR (ledger_ledgermessage.position = '' AND ledger_ledgermessage.stored_us = 0))""",
)  # fmt: skip
_FOUND = Insert(_MESSAGES.table, _MESSAGES.columns, "ON CONFLICT (message_id, topic, source) DO NOTHING")
#: A message of which only a repeat was told. Who repeats it may have another source: any row of the message will do.
_REPEATED = f"""
INSERT INTO {_MESSAGES.table} ({", ".join(_MESSAGES.columns)})
SELECT {", ".join(["%s"] * len(_MESSAGES.columns))}
WHERE NOT EXISTS (SELECT 1 FROM {_MESSAGES.table} WHERE message_id = %s AND topic = %s)
ON CONFLICT (message_id, topic, source) DO NOTHING
"""  # noqa: S608 - names are constants of this module
_EVENTS = Insert(
    "ledger_ledgerevent",
    ("message_id", "kind", "topic", "subscription", "at_ms", "attempt", "duration_us", "due_ms", "node", "error",
     "fingerprint", "detail", "stack_id", "source"),
)  # fmt: skip
_STACKS = Insert(
    "ledger_ledgerstack",
    ("stack_id", "text", "at_ms"),
    """ON CONFLICT (stack_id) DO UPDATE SET at_ms = excluded.at_ms
    WHERE excluded.at_ms > ledger_ledgerstack.at_ms""",
)
_POSITION = _MESSAGES.columns.index("position")


def _adding_to(table: str) -> str:
    # A sum that ran over would refuse all that is still to be added to its row.
    added = (
        f"{name} = CASE WHEN {table}.{name} < {MOST_OF_A_ROW} "
        f"THEN {table}.{name} + excluded.{name} ELSE {table}.{name} END"
        for name in _COLUMNS
    )
    return f"""
INSERT INTO {table} (topic, subscription, bucket_ms, {", ".join(_COLUMNS)})
VALUES (%s, %s, %s, {", ".join(["%s"] * len(_COLUMNS))})
ON CONFLICT (topic, subscription, bucket_ms) DO UPDATE
    SET {", ".join(added)}
"""  # noqa: S608 - names are constants of this module


_ADD_FLOW, _ADD_ROLLUP = _adding_to("ledger_flowsample"), _adding_to("ledger_flowrollup")

Flow = dict[tuple[str, str, int], list[int]]


class MessageProjection:
    """What facts of the bus amount to; without ``per_message`` only flow and notices."""

    engine = FACTS.engine

    def __init__(self, per_message: bool = True) -> None:
        self._per_message = per_message
        self._messages: list[Row] = []
        self._found: list[Row] = []
        self._repeated: list[Row] = []
        self._events: list[Row] = []
        self._stacks: list[Row] = []
        self._notices: list[Row] = []
        self._flow: Flow = {}

    def add(self, batch: FactBatch) -> None:
        """Sort one batch into rows; one of a kind or fields that are not the bus's is passed over."""
        kind, fields = kinds().get(batch.kind), batch.fields
        if not isinstance(kind, BusKind) or not isinstance(fields, BusFields):
            return
        subject = batch.subject
        topic = subject.namespace if subject is not None else ""
        subscription = subject.name[:100] if subject is not None else ""
        if kind.flow:
            self._count(kind, batch, (topic, subscription))
        if kind.books & Books.NOTICE:
            self._notices += _notices(batch, fields, topic, subscription)
        elif self._per_message and fields.message_id:
            if kind.books & Books.MESSAGE:
                self._messages += _messages(batch, fields, topic)
            if kind.books & Books.FOUND:
                self._found += _messages(batch, fields, topic)
            if kind.books & Books.REPEAT and not subscription:
                self._repeated += _repeated(batch, fields, topic)
            if kind.books & Books.EVENT:
                self._events += _events(batch, fields, topic, subscription)
                if fields.stack:
                    self._stacks += _stacks(batch, fields)
        if self._per_message and kind.books & Books.EVENT:
            self._notices += _nameless(batch, fields, topic, subscription)

    def write(self) -> None:
        """Insert everything into the ledger database. The caller opens the transaction."""
        _MESSAGES.run(self._messages)
        _FOUND.run(self._found)
        _EVENTS.run(self._events)
        _STACKS.run(self._stacks)
        NOTICES.run(self._notices)
        flow, rollup = _cells(self._flow), _cells(self._rolled_up())
        with connections[LEDGER].cursor() as cursor:
            for statement, rows in (
                # After the messages: one that was told in the same batch needs no second row.
                (_REPEATED, self._repeated),
                (_ADD_FLOW, flow),
                (_ADD_ROLLUP, rollup),
            ):
                if rows:
                    cursor.executemany(statement, rows)

    def _count(self, kind: BusKind, batch: FactBatch, place: tuple[str, str]) -> None:
        column = _COLUMNS.index(kind.flow)
        for bucket_ms, part in _by_bucket(batch):
            counts = self._flow.setdefault((*place, bucket_ms), [0] * len(_COLUMNS))
            fields = part.fields
            assert isinstance(fields, BusFields)
            # One fact of a call that failed tells of all its messages.
            counts[column] += sum(numbers(fields.size, part.count, INT4)) if kind.counter.adds else part.count
            if kind.flow == "settled":
                counts[_DURATION] += sum(numbers(fields.duration_us, part.count, _LONGEST_US))
                attempts = list(each(fields.attempt, part.count))
                counts[_SETTLED_FIRST] += attempts.count(1) + attempts.count(0)

    def _rolled_up(self) -> Flow:
        """The flow of this batch in the longer spans: mostly one for each topic and subscription."""
        found: Flow = {}
        for (topic, subscription, bucket_ms), counts in self._flow.items():
            cell = (topic, subscription, bucket_ms - bucket_ms % ROLLUP_MS)
            known = found.get(cell)
            found[cell] = list(counts) if known is None else list(map(add, known, counts))
        return found


def _cells(flow: Flow) -> list[Row]:
    return [(*cell, *(min(count, MOST_OF_A_ROW) for count in counts)) for cell, counts in flow.items()]


def _by_bucket(batch: FactBatch) -> Iterator[tuple[int, FactBatch]]:
    """The facts of each span of time. Nearly always that is all of them."""
    at_ms = batch.at_ms
    begin, end = (min(at_ms), max(at_ms)) if isinstance(at_ms, list) else (at_ms, at_ms)
    if isinstance(at_ms, int) or end < begin - begin % BUCKET_MS + BUCKET_MS:
        yield begin - begin % BUCKET_MS, batch
        return
    start = 0
    for bucket_ms, run in groupby(at_ms, lambda moment: moment - moment % BUCKET_MS):
        stop = start + sum(1 for _ in run)
        yield bucket_ms, batch.part(start, stop)
        start = stop


def _messages(batch: FactBatch, fields: BusFields, topic: str) -> Iterable[Row]:
    count = batch.count
    return _told(
        fields.message_id,
        zip(
            texts(fields.message_id, count, LONGEST_ID),
            repeat(topic, count),
            texts(fields.type, count, 200),
            texts(fields.source, count, LONGEST_SOURCE),
            texts(fields.key, count, 200),
            texts(batch.correlation_id, count, 128),
            texts(fields.causation_id, count, 64),
            texts(fields.trace_id, count, 32),
            texts(fields.position, count, 64),
            numbers(fields.size, count, INT4),
            each(batch.at_ms, count),
            each(fields.due_ms, count),
            numbers(fields.duration_us, count, _LONGEST_US),
            strict=True,
        ),
    )


def _repeated(batch: FactBatch, fields: BusFields, topic: str) -> Iterable[Row]:
    """The originals that the store names a position of, each followed by what it is known by."""
    # The call took its time to be answered, and not to append: that was the first one's, which nobody knows.
    return [(*row[:-1], 0, row[0], row[1]) for row in _messages(batch, fields, topic) if row[_POSITION]]


def _events(batch: FactBatch, fields: BusFields, topic: str, subscription: str) -> Iterable[Row]:
    count = batch.count
    return _told(
        fields.message_id,
        zip(
            texts(fields.message_id, count, LONGEST_ID),
            repeat(batch.kind, count),
            repeat(topic, count),
            repeat(subscription, count),
            each(batch.at_ms, count),
            numbers(fields.attempt, count, INT4),
            numbers(fields.duration_us, count, _LONGEST_US),
            each(fields.due_ms, count),
            texts(batch.node, count, 100),
            texts(fields.error, count, 500),
            texts(fields.fingerprint, count, 16),
            texts(batch.detail, count, 500),
            texts(fields.stack_id, count, LONGEST_STACK_ID),
            # Who repeats a publish names the original's id, and its own source.
            repeat(None, count)
            if batch.kind == "deduplicated" and not subscription
            else texts(fields.source, count, LONGEST_SOURCE),
            strict=True,
        ),
    )


def _stacks(batch: FactBatch, fields: BusFields) -> Iterable[Row]:
    count = batch.count
    ids = texts(fields.stack_id, count, LONGEST_STACK_ID)
    rows = zip(ids, texts(fields.stack, count, STACK_BYTES), each(batch.at_ms, count), strict=True)
    return (row for row in rows if row[0] and row[1])


def _told(message_ids: str | list[str], rows: Iterable[Row]) -> Iterable[Row]:
    """Without what concerns no message that could be named, such as one whose envelope was unreadable."""
    if isinstance(message_ids, list) and not whole(message_ids):
        return compress(rows, message_ids)
    return rows


def _nameless(batch: FactBatch, fields: BusFields, topic: str, subscription: str) -> Iterable[Row]:
    """Notices of what happened to messages that could not be named: their envelopes are unreadable."""
    count, ids = batch.count, fields.message_id
    if ids if isinstance(ids, str) else whole(ids):
        return ()
    told = zip(each(fields.position, count), each(batch.detail, count), each(fields.error, count), strict=True)
    # Cut before it is joined: a text that a whole batch shares would be copied for each of its facts.
    details = [
        f"message at {position[:64] or '?'} without a readable name: {(one or other)[:500]}"
        for position, one, other in told
    ]
    rows = zip(
        repeat(batch.kind, count),
        each(batch.at_ms, count),
        repeat(topic, count),
        repeat(subscription, count),
        texts(batch.node, count, 100),
        repeat(1, count),
        texts(details, count, 500),
        strict=True,
    )
    return compress(rows, [not one for one in each(ids, count)])


def _notices(batch: FactBatch, fields: BusFields, topic: str, subscription: str) -> Iterable[Row]:
    count = batch.count
    details = [one or other for one, other in zip(each(batch.detail, count), each(fields.error, count), strict=True)]
    return zip(
        repeat(batch.kind, count),
        each(batch.at_ms, count),
        repeat(topic, count),
        repeat(subscription, count),
        texts(batch.node, count, 100),
        numbers(fields.size, count, MOST_THINGS),
        texts(details, count, 500),
        strict=True,
    )
