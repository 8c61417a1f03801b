"""The form in which facts lie in the store between the process that emits them and the keeper: MessagePack of columns.

``[2, [batch, ...]]``, a batch being ``[kind, at_ms, subject, node, count, correlation_id, detail, fields]``, the
subject ``[kind, namespace, name]`` or nil, and the fields in the order in which their engine declares them. Releases
before this form wrote a list of rows without a number in front; what they left is still read.

Whoever can write to the store can put anything there. What cannot be read is told and counted, and stops nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from engine.core.error_text import text_of
from engine.core.errors import HbusError
from engine.core.facts import MOST_FACTS, SHARED, FactBatch, Fields, Moments, Texts
from engine.core.prepared import prepared
from engine.core.subject import Subject
from engine.core.utf8 import sayable
from hbus_console.evidence.kinds import catalog_of, catalogs

#: The number of the form.
FORM = 2
#: The largest entry that is read, in bytes. An emitter writes a tenth of that at once.
MOST_BYTES = 64 * 1024 * 1024
#: The most batches of one entry: none is without a fact.
MOST_BATCHES = MOST_FACTS
#: How many parts of one entry may be unreadable before the rest of it is given up.
MOST_LOST = 100

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, HbusError, ValueError)


class _Written(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A batch whose fields are still to be read, by the declaration that its kind belongs to."""

    kind: Annotated[str, Meta(max_length=40)]
    at_ms: Moments
    subject: Subject | None
    node: str
    count: Annotated[int, Meta(ge=1, le=MOST_FACTS)]
    correlation_id: Texts
    detail: Texts
    fields: msgspec.Raw


@dataclass
class Contents:
    """What one entry holds. It is added to by :meth:`take` and :meth:`lose` only, so that its count is known."""

    batches: list[FactBatch] = field(default_factory=list)
    #: What could not be read of it: how many facts (0: nobody knows) and why.
    lost: list[tuple[int, str]] = field(default_factory=list)
    #: How many facts it was written with, as far as that can be told.
    count: int = field(init=False)

    def __post_init__(self) -> None:
        self.count = sum(batch.count for batch in self.batches) + sum(count for count, _ in self.lost)

    def take(self, batch: FactBatch) -> None:
        self.batches.append(batch)
        self.count += batch.count

    def lose(self, count: int, why: str) -> None:
        self.lost.append((count, why))
        self.count += count


_encoder = msgspec.msgpack.Encoder()
_form = msgspec.msgpack.Decoder(prepared(tuple[int, Annotated[list[msgspec.Raw], Meta(max_length=MOST_BATCHES)]]))
_batch = msgspec.msgpack.Decoder(prepared(_Written))


def encode(batches: Sequence[FactBatch]) -> bytes:
    """The bytes of one entry."""
    try:
        return _encoder.encode((FORM, batches))
    except UnicodeEncodeError:
        # The text of somebody's error may hold what no UTF-8 can say; its fact is worth more than that letter.
        return _encoder.encode((FORM, [_scrubbed(batch) for batch in batches]))


def decode(body: bytes) -> Contents:
    """What ``body`` holds. Raises ``ValueError`` when nothing of it can be read."""
    if len(body) > MOST_BYTES:
        raise ValueError(f"{len(body):,} bytes are more than an entry has")
    try:
        form, written = _form.decode(body)
    except _UNREADABLE as error:
        found = _rows(body)
        if found is None:
            raise ValueError(text_of(error)) from error
        return found
    if form != FORM:
        raise ValueError(f"it has the form {form}, which this release does not know")
    found = Contents()
    for place, one in enumerate(written):
        if not _add(found, one):
            # Nobody knows how many facts these are; the running number of the entry tells it.
            found.lose(0, f"the last {len(written) - place:,} of its {len(written):,} batches are given up")
            break
    return found


def _add(found: Contents, raw: msgspec.Raw) -> bool:
    """Add one batch, or why there is none; whether to go on after it."""
    if len(found.lost) >= MOST_LOST:
        return False
    count = 0
    try:
        written = _batch.decode(raw)
        count = written.count
        if found.count + count > MOST_FACTS:
            return False
        found.take(_whole(written))
    except _UNREADABLE as error:
        found.lose(count, text_of(error))
    return True


def _whole(written: _Written) -> FactBatch:
    catalog = catalog_of(written.kind)
    if catalog is None:
        raise ValueError(f"no engine declares the kind {written.kind!r}")
    fields = _fields(catalog.fields).decode(written.fields)
    batch = FactBatch(
        written.kind,
        written.at_ms,
        written.subject,
        written.node,
        written.count,
        written.correlation_id,
        written.detail,
        fields,
    )
    for owner, names in ((batch, SHARED), (fields, fields.__struct_fields__)):
        for name in names:
            column = getattr(owner, name)
            if type(column) is list and len(column) != batch.count:
                raise ValueError(f"the column {name} holds {len(column)} values for {batch.count} facts")
    return batch


@cache
def _fields(declared: type[Fields]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(prepared(declared))


def _rows(body: bytes) -> Contents | None:
    """Facts as the releases before this form wrote them; ``None`` when these are none."""
    for catalog in catalogs():
        try:
            batches, reasons = catalog.read_rows(body)
        except _UNREADABLE:
            continue
        found = Contents(lost=[(1, why) for why in reasons[:MOST_LOST]])
        if len(reasons) > MOST_LOST:
            found.lose(len(reasons) - MOST_LOST, "as many more rows")
        undeclared = 0
        for batch in batches:
            if catalog_of(batch.kind) is not None:
                found.take(batch)
            elif len(found.lost) < MOST_LOST:
                found.lose(batch.count, f"no engine declares the kind {batch.kind!r}"[:100])
            else:
                undeclared += batch.count
        if undeclared:
            found.lose(undeclared, "no engine declares the kinds of as many more rows")
        return found
    return None


def _scrubbed(batch: FactBatch) -> FactBatch:
    names = batch.fields.__struct_fields__
    return msgspec.structs.replace(
        batch,
        node=sayable(batch.node),
        correlation_id=sayable(batch.correlation_id),
        detail=sayable(batch.detail),
        fields=msgspec.structs.replace(batch.fields, **{name: sayable(getattr(batch.fields, name)) for name in names}),
    )
