"""The columns of a lake's files."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.compute as pc

from engine.pipeline.lake.state import Kind
from engine.pipeline.source.columns import INSTANT, ORIGINAL, USUAL, schema_of

#: The key, as a number: files are sorted by it, and what belongs to one key lies together in each.
KEY_HASH = "key_hash"
#: What is read of a topic for it.
READ = (*USUAL, ORIGINAL)
SCHEMA: pa.Schema = schema_of(READ).append(pa.field(KEY_HASH, pa.int64()))
#: What the ledger tells of a message that was published: one row each, ``row_id`` being its number there. One that
#: waited for its time is told when it is published, and so after those of higher numbers. What is empty is null.
PUBLISHED: pa.Schema = pa.schema(
    [
        pa.field("row_id", pa.int64()),
        *(
            pa.field(name, pa.string())
            for name in (
                *("message_id", "topic", "type", "source", "key", "correlation_id", "causation_id", "trace_id"),
                "position",
            )
        ),
        #: Of the envelope, bytes.
        pa.field("size", pa.int64()),
        pa.field("published_at", INSTANT),
        #: When it was due; null unless it was delayed.
        pa.field("due_at", INSTANT),
        #: How long the store took to append it; null where nobody told.
        pa.field("stored_us", pa.int64()),
        pa.field(KEY_HASH, pa.int64()),
    ]
)
#: What the ledger tells of one thing that happened to a message, mostly of a delivery. It knows no key: ``key_hash`` is
#: that of ``message_id``, so what happened to one message lies together in each file, in the order it was booked.
DELIVERIES: pa.Schema = pa.schema(
    [
        pa.field("row_id", pa.int64()),
        pa.field("message_id", pa.string()),
        #: Null: nobody told whose the message is, and any of that id may be meant.
        pa.field("source", pa.string()),
        pa.field("topic", pa.string()),
        #: Null: of the topic itself.
        pa.field("subscription", pa.string()),
        #: Of the fact: ``settled``, ``retried``, ``dead`` …
        pa.field("kind", pa.string()),
        pa.field("at", INSTANT),
        pa.field("attempt", pa.int64()),
        pa.field("duration_us", pa.int64()),
        #: When it is tried again, or due.
        pa.field("due_at", INSTANT),
        *(pa.field(name, pa.string()) for name in ("node", "error", "fingerprint", "detail", "stack_id")),
        pa.field(KEY_HASH, pa.int64()),
    ]
)
SCHEMAS: dict[Kind, pa.Schema] = {Kind.MESSAGES: SCHEMA, Kind.PUBLISHED: PUBLISHED, Kind.DELIVERIES: DELIVERIES}
#: Of which column ``key_hash`` is the hash.
HASHED = {Kind.MESSAGES: "partitionkey", Kind.PUBLISHED: "key", Kind.DELIVERIES: "message_id"}
#: How much of a message's id and source the ledger keeps, characters.
LEDGER_ID, LEDGER_SOURCE = 64, 300
#: Columns that say the same again and again.
REPEATED = (
    *("topic", "log", "source", "type", "partitionkey", "datacontenttype", "dataschema"),
    *("key", "subscription", "kind", "node", "error", "fingerprint", "detail", "stack_id"),
)


def key_hash(key: str) -> int:
    """The first eight bytes of BLAKE2b, signed: the same everywhere and for ever."""
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8"), digest_size=8).digest(), "big", signed=True)


def in_key_order(table: pa.Table, kind: Kind = Kind.MESSAGES) -> pa.Table:
    """``table``, in the order of its log, with :data:`KEY_HASH`, and sorted by it; each key's rows keep theirs.

    What has no key is null, and lies at the end.
    """
    coded = table[HASHED[kind]].combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    hashes = pa.array([key_hash(key) for key in coded.dictionary.to_pylist()], pa.int64())
    return sorted_by_key(table.append_column(KEY_HASH, hashes.take(coded.indices)))


def sorted_by_key(table: pa.Table) -> pa.Table:
    """By :data:`KEY_HASH`; what has the same one keeps its order, and what has none lies at the end."""
    return table.take(pc.sort_indices(table[KEY_HASH]))
