"""What the bus tells: its fields, and one fact by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from engine.bus.subjects import SUBSCRIPTION, subject_of
from engine.core.errors import HbusError
from engine.core.facts import CoreFields, FactBatch, Fields, Moment, Moments, Numbers, Texts, merged
from engine.core.prepared import prepared
from engine.core.subject import Subject

T = TypeVar("T", str, int)


class BusFields(Fields, frozen=True, array_like=True, gc=False):
    """What a fact of the bus has beside what all facts have. Its subject is a topic or a subscription."""

    message_id: Texts = ""
    key: Texts = ""
    causation_id: Texts = ""
    trace_id: Texts = ""
    type: Texts = ""
    source: Texts = ""
    position: Texts = ""
    #: 1 for the first; 0 where no attempt was made.
    attempt: Numbers = 0
    #: How long the handler (or the append) took.
    duration_us: Numbers = 0
    #: Bytes of the envelope; of a kind that concerns no single message, how many it concerns.
    size: Numbers = 0
    #: When it is due (again), epoch milliseconds; 0 unless it waits.
    due_ms: Moments = 0
    error: Texts = ""
    fingerprint: Texts = ""
    #: Which stack trace a failure has. Its text is with the first fact that tells of it, and again once a minute.
    stack_id: Texts = ""
    stack: Texts = ""


class Fact(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One fact of the bus by itself: for what happens seldom, and for who wants to read facts one by one.

    Until facts became columns this was also their form on the wire, so its fields keep their order.
    """

    kind: str
    at_ms: Moment
    topic: str = ""
    subscription: str = ""
    message_id: str = ""
    key: str = ""
    correlation_id: str = ""
    causation_id: str = ""
    trace_id: str = ""
    type: str = ""
    source: str = ""
    position: str = ""
    attempt: int = 0
    duration_us: int = 0
    size: int = 0
    due_ms: Moment = 0
    node: str = ""
    error: str = ""
    fingerprint: str = ""
    detail: str = ""
    stack_id: str = ""
    stack: str = ""

    @property
    def subject(self) -> Subject | None:
        """Its subscription, or its topic; ``None`` when it concerns the installation as such."""
        return subject_of(self.topic, self.subscription) if self.topic or self.subscription else None

    def batch(self) -> FactBatch:
        """It alone, as columns. Raises :class:`~engine.core.errors.BadInput` for a name no subject may have."""
        return FactBatch(
            self.kind,
            self.at_ms,
            self.subject,
            self.node,
            1,
            self.correlation_id,
            self.detail,
            CoreFields(self.size) if self.kind == "facts_dropped" else self._fields(),
        )

    def _fields(self) -> BusFields:
        return BusFields(
            self.message_id,
            self.key,
            self.causation_id,
            self.trace_id,
            self.type,
            self.source,
            self.position,
            self.attempt,
            self.duration_us,
            self.size,
            self.due_ms,
            self.error,
            self.fingerprint,
            self.stack_id,
            self.stack,
        )


def column(values: list[T]) -> T | list[T]:
    """``values`` as a column: the one value that all of them have, or the list."""
    first = values[0]
    # Ids differ from the first to the last: then there is nothing to count.
    return first if first == values[-1] and values.count(first) == len(values) else values


def batches(facts: Iterable[Fact]) -> list[FactBatch]:
    """Facts as columns. Raises as :meth:`Fact.batch`."""
    return merged([fact.batch() for fact in facts])


def facts_of(batches: Iterable[FactBatch]) -> Iterator[Fact]:
    """The facts of the bus among ``batches`` one by one, and those that belong to no engine."""
    for batch in batches:
        subject = batch.subject
        topic = subject.namespace if subject else ""
        subscription = subject.name if subject and subject.kind == SUBSCRIPTION else ""
        for row in batch.rows() if isinstance(batch.fields, BusFields | CoreFields) else ():
            if "amount" in row:
                row["size"] = row.pop("amount")
            yield Fact(batch.kind, topic=topic, subscription=subscription, node=batch.node, **row)


#: More rows than any release wrote at once.
_MOST_ROWS = 20_000
_rows = msgspec.msgpack.Decoder(prepared(Annotated[list[msgspec.Raw], Meta(max_length=_MOST_ROWS)]))
_row = msgspec.msgpack.Decoder(prepared(Fact))


def read_rows(body: bytes) -> tuple[list[FactBatch], list[str]]:
    """Facts as the releases before columns wrote them, and for each that is none the reason.

    Raises what the decoder raises when ``body`` is no list, and the first reason as ``ValueError`` when nothing in it
    is a fact.
    """
    found, lost = [], []
    for raw in _rows.decode(body):
        try:
            found.append(_row.decode(raw).batch())
        except (msgspec.MsgspecError, ValueError, RecursionError, HbusError) as error:
            lost.append(f"{type(error).__name__}: {error}")
    if lost and not found:
        raise ValueError(lost[0])
    return merged(found), lost
