"""What lies in a ledger: entries, each a batch of records packed into bytes.

A record is a message that waits, a *tombstone* (this sequence, up to this version, is not to be dispatched), or the
note that a message was handed over. All three have the due time and sequence of the message at the same place, so that
buckets are copied, searched and merged without reading more than these (:class:`Packed`).

An entry begins with a head: version byte, number of records, what the ledger holds up to and with this entry (so that
its last entry tells its counts), the spans of due times and sequences (so that a search skips what cannot hold what it
looks for), and a checksum of the rest. All numbers are little-endian.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec

from engine.core.errors import BadInput
from engine.delay.errors import EntryDamaged

VERSION = 1
#: The most records of an entry, and their bytes: BookKeeper's frames end at 5 MiB.
MOST_RECORDS = 1_000
MOST_ENTRY_BYTES = 1 << 20
#: The longest record, which is an entry of its own.
MOST_RECORD_BYTES = 4 << 20
#: The longest text in a record: its length is kept in two bytes.
MOST_TEXT_BYTES = 65_535

#: version, records, messages and tombstones so far, due from and to, sequence from and to, checksum of the records.
_HEAD = struct.Struct("<BIQQqqQQI")
#: kind, version, due, sequence, then the lengths of id, key, topic and body.
_RECORD = struct.Struct("<BIqQHHHI")


class RecordKind(IntEnum):
    """The value is stored, and sorts: tombstones lead, so that they are known before what they are about."""

    TOMBSTONE = 1
    MESSAGE = 2
    #: It was handed over; in the dispatch log of a minute.
    DISPATCHED = 3


class PendingMessage(msgspec.Struct, frozen=True, gc=False):
    """A message that waits. Its shard is that of the ledger it lies in."""

    #: When it is to be handed over: UTC, milliseconds since the epoch.
    due_ms: int
    message_id: str
    topic: str
    #: The envelope, as the bus is to publish it.
    body: bytes
    #: The client's own name for it; empty: none.
    key: str = ""
    #: Unique in its shard: the epoch of the owner that took it, and a count. 0: not given yet.
    sequence: int = 0
    #: Grows with each reschedule.
    version: int = 0


class Packed(NamedTuple):
    """A record as it lies in an entry, with what it is sorted, routed and matched by."""

    due_ms: int
    sequence: int
    version: int
    kind: RecordKind
    raw: bytes

    def message(self) -> PendingMessage:
        """All of it. Raises :class:`~engine.delay.errors.EntryDamaged`."""
        _, version, due_ms, sequence, of_id, of_key, of_topic, of_body = _RECORD.unpack_from(self.raw)
        texts = self.raw[_RECORD.size :]
        key_at = of_id
        topic_at = key_at + of_key
        body_at = topic_at + of_topic
        try:
            message_id, key, topic = texts[:key_at].decode(), texts[key_at:topic_at].decode(), texts[topic_at:body_at]
            body = texts[body_at : body_at + of_body]
            return PendingMessage(due_ms, message_id, topic.decode(), body, key, sequence, version)
        except UnicodeDecodeError as error:
            raise _damaged("a text in it is not UTF-8") from error


class EntrySpan(NamedTuple):
    """What an entry tells of its records without their being read."""

    records: int
    #: Of the ledger, up to and with this entry. ``messages`` counts notes of a dispatch log as well.
    messages: int
    tombstones: int
    due_from_ms: int
    due_to_ms: int
    sequence_from: int
    sequence_to: int


def packed(message: PendingMessage) -> Packed:
    """Raises ``BadInput`` for one that is too long to be kept."""
    texts = [message.message_id.encode(), message.key.encode(), message.topic.encode()]
    for field, text in zip(("message_id", "key", "topic"), texts, strict=True):
        if len(text) > MOST_TEXT_BYTES:
            raise BadInput(
                f"The {field} of a delayed message has {len(text):,} bytes.",
                remedy=f"Keep it within {MOST_TEXT_BYTES:,}.",
                field=field,
            )
    lengths = [len(text) for text in texts]
    if (size := _RECORD.size + sum(lengths) + len(message.body)) > MOST_RECORD_BYTES:
        raise BadInput(
            f"The delayed message {message.message_id} has {size:,} bytes.",
            remedy=f"Keep it within {MOST_RECORD_BYTES:,}: put the payload elsewhere, and publish where it is.",
            field="body",
        )
    kind, due_ms, sequence, version = RecordKind.MESSAGE, message.due_ms, message.sequence, message.version
    head = _RECORD.pack(kind, version, due_ms, sequence, *lengths, len(message.body))
    return Packed(due_ms, sequence, version, kind, b"".join([head, *texts, message.body]))


def tombstone(of: Packed) -> Packed:
    """The record that ends a message in its version and those before."""
    return _note(of, RecordKind.TOMBSTONE)


def dispatched(of: Packed) -> Packed:
    """The note that it was handed over."""
    return _note(of, RecordKind.DISPATCHED)


def _note(of: Packed, kind: RecordKind) -> Packed:
    raw = _RECORD.pack(kind, of.version, of.due_ms, of.sequence, 0, 0, 0, 0)
    return Packed(of.due_ms, of.sequence, of.version, kind, raw)


def entry_of(records: Sequence[Packed], *, messages_before: int = 0, tombstones_before: int = 0) -> bytes:
    """``records``, at least one, as an entry of a ledger that holds so many before it."""
    body = b"".join([record.raw for record in records])
    dues = [record.due_ms for record in records]
    sequences = [record.sequence for record in records]
    tombstones = sum(record.kind is RecordKind.TOMBSTONE for record in records)
    head = _HEAD.pack(
        VERSION,
        len(records),
        messages_before + len(records) - tombstones,
        tombstones_before + tombstones,
        min(dues),
        max(dues),
        min(sequences),
        max(sequences),
        zlib.crc32(body),
    )
    return head + body


def entries_of(records: Iterable[Packed]) -> Iterator[list[Packed]]:
    """``records`` in their order, cut into what one entry each takes."""
    batch: list[Packed] = []
    size = 0
    for record in records:
        if batch and (len(batch) == MOST_RECORDS or size + len(record.raw) > MOST_ENTRY_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += len(record.raw)
    if batch:
        yield batch


def span_of(entry: bytes) -> EntrySpan:
    """What its head says. Raises :class:`~engine.delay.errors.EntryDamaged`; looks at nothing behind the head."""
    if len(entry) < _HEAD.size:
        raise _damaged(f"it has {len(entry)} bytes, fewer than its head")
    version, *told, _ = _HEAD.unpack_from(entry)
    if version != VERSION:
        raise _damaged(f"it is of version {version}, and {VERSION} is the one known here")
    return EntrySpan(*told)


def records_of(entry: bytes) -> list[Packed]:
    """All of them, in their order. Raises :class:`~engine.delay.errors.EntryDamaged`."""
    span = span_of(entry)
    body = entry[_HEAD.size :]
    if zlib.crc32(body) != _HEAD.unpack_from(entry)[-1]:
        raise _damaged("its checksum is another")
    records: list[Packed] = []
    at = 0
    # Bytes with the right checksum were written here, and may still be of a writer that was wrong.
    try:
        for _ in range(span.records):
            kind, version, due_ms, sequence, *lengths = _RECORD.unpack_from(body, at)
            end = at + _RECORD.size + sum(lengths)
            records.append(Packed(due_ms, sequence, version, RecordKind(kind), body[at:end]))
            at = end
    except (struct.error, ValueError) as error:
        raise _damaged(f"its record {len(records) + 1} is none") from error
    if at != len(body):
        raise _damaged(f"it has {len(body)} bytes of records where {at} are told")
    return records


def _damaged(why: str) -> EntryDamaged:
    return EntryDamaged(
        f"An entry of a delay ledger cannot be read: {why}.",
        remedy="Restore the ledger from a copy; a newer release may have written it.",
    )
