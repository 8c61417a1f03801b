"""Messages as columns: an envelope is read once, into the columns that are wanted and no others.

Every column may be null, for Spark takes none from Python that may not. What is no envelope is a row all the same: its
``malformed`` says why, and its bytes are in ``envelope`` where that is asked for.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from engine.bus import MalformedEnvelope, decode
from engine.core.clock import from_rfc3339, to_datetime
from engine.core.errors import BadInput
from engine.core.prepared import prepared

LOST = "lost"
ORIGINAL = "original"
INSTANT = pa.timestamp("us", tz="UTC")
TEXTS = (
    *("id", "source", "type", "subject", "partitionkey", "sequence", "datacontenttype", "dataschema"),
    *("dataclassification", "traceparent", "tracestate", "correlationid", "causationid"),
    *("hbuspriority", "hbusreplay", "hbustarget"),
)
INSTANTS = ("time", "expirytime", "hbusdue")
#: What the log itself tells of a message; ``topic`` and ``log`` say where it lies, ``size`` is the envelope's, bytes.
OF_THE_LOG = {
    "topic": pa.string(),
    "log": pa.string(),
    "position": pa.string(),
    "stored_at": INSTANT,
    "size": pa.int64(),
    "envelope": pa.binary(),
    #: Not of a message: how many are gone in this row's place, see :mod:`engine.pipeline.source.losses`.
    LOST: pa.int64(),
}
_OF_THE_ENVELOPE = {
    **dict.fromkeys(TEXTS, pa.string()),
    **dict.fromkeys(INSTANTS, INSTANT),
    #: JSON text as it was sent.
    "data": pa.string(),
    "data_base64": pa.binary(),
    "extensions": pa.map_(pa.string(), pa.string()),
    "malformed": pa.string(),
    #: The envelope where the other columns do not tell all of it: it is malformed, or an instant in it is none.
    ORIGINAL: pa.binary(),
}
#: Every column there is.
COLUMNS: dict[str, pa.DataType] = {**OF_THE_LOG, **_OF_THE_ENVELOPE}
#: What is read unless something else is asked for.
USUAL = tuple(name for name in COLUMNS if name not in ("envelope", ORIGINAL, LOST))
#: As Spark calls the types.
_DDL = {
    pa.string(): "STRING",
    INSTANT: "TIMESTAMP",
    pa.int64(): "BIGINT",
    pa.binary(): "BINARY",
    pa.map_(pa.string(), pa.string()): "MAP<STRING, STRING>",
}
#: Stands for no data.
NO_DATA = msgspec.Raw(b"")
_RAW = ("data", "extensions", "malformed", ORIGINAL)
#: What reading raises that is no envelope of just these attributes: no JSON, other members, nested too deep.
_ODD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def wanted(names: str) -> tuple[str, ...]:
    """The columns of a list with commas, each once; raises :class:`BadInput` for one that is none."""
    found = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if unknown := [name for name in found if name not in COLUMNS]:
        raise BadInput(
            f"{unknown[0]!r} is no column of a topic.", remedy=f"Choose of {', '.join(COLUMNS)}.", field="columns"
        )
    return found or USUAL


def ddl_of(names: Sequence[str]) -> str:
    """The schema as Spark reads it."""
    return ", ".join(f"`{name}` {_DDL[COLUMNS[name]]}" for name in names)


def spark_type_of(name: str) -> str:
    """As Spark calls it in short."""
    return _DDL[COLUMNS[name]].lower().replace(" ", "")


def schema_of(names: Sequence[str]) -> pa.Schema:
    return pa.schema([pa.field(name, COLUMNS[name]) for name in names])


@dataclass(frozen=True, slots=True)
class Rows:
    """Messages of one log."""

    topic: str
    log: str
    positions: Sequence[str]
    at_ms: Sequence[int]
    bodies: Sequence[bytes]


class Columns:
    """Makes tables of ``names``. Thread-safe."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.schema = schema_of(names)
        self._of_envelope = [name for name in names if name in _OF_THE_ENVELOPE and name not in _RAW]
        self._kind = _kind(names)
        self._decoder = msgspec.json.Decoder(prepared(self._kind))

    def table(self, rows: Rows) -> pa.RecordBatch:
        """One batch of all of them, in their order."""
        count = len(rows.bodies)
        made: dict[str, Any] = {
            "topic": lambda: _repeated(rows.topic, count),
            "log": lambda: _repeated(rows.log, count),
            "position": lambda: pa.array(rows.positions, pa.string()),
            "stored_at": lambda: pa.array(rows.at_ms, pa.int64()).cast(pa.timestamp("ms", tz="UTC")).cast(INSTANT),
            "size": lambda: pa.array([len(body) for body in rows.bodies], pa.int64()),
            "envelope": lambda: pa.array(rows.bodies, pa.binary()),
            LOST: lambda: pa.nulls(count, pa.int64()),
        }
        arrays = {name: made[name]() for name in self.names if name in made}
        if self._kind is not None:
            arrays |= self._envelopes(rows.bodies, self._kind)
        return pa.RecordBatch.from_arrays([arrays[name] for name in self.names], schema=self.schema)

    def _envelopes(self, bodies: Sequence[bytes], kind: type[msgspec.Struct]) -> dict[str, pa.Array]:
        read, envelopes = self._decoder.decode, []
        odd: dict[int, tuple[Mapping[str, str], str]] = {}
        for index, body in enumerate(bodies):
            try:
                envelopes.append(read(body))
            except _ODD:
                envelope, extensions, why = _read_slowly(kind, body)
                envelopes.append(envelope)
                odd[index] = extensions, why
        # All attributes of one after the other, and then each attribute of all: far cheaper than asking by name.
        values = dict(
            zip(kind.__struct_fields__, zip(*map(msgspec.structs.astuple, envelopes), strict=True), strict=True)
        )
        found = {name: _column(name, values[name]) for name in self._of_envelope}
        if "data" in self.names:
            found["data"] = _texts([bytes(raw) for raw in values["data"]])
        if "extensions" in self.names:
            further = {index: list(extensions.items()) for index, (extensions, _) in odd.items() if extensions}
            found["extensions"] = _rarely(further, len(bodies), COLUMNS["extensions"])
        if "malformed" in self.names:
            found["malformed"] = _rarely({at: why for at, (_, why) in odd.items() if why}, len(bodies), pa.string())
        if ORIGINAL in self.names:
            malformed = {at for at, (_, why) in odd.items() if why}
            found[ORIGINAL] = self._originals(bodies, values, found, malformed)
        return found

    def _originals(
        self, bodies: Sequence[bytes], values: Mapping[str, Any], found: Mapping[str, pa.Array], malformed: set[int]
    ) -> pa.Array:
        kept = set(malformed)
        for name in INSTANTS:
            if name in found and found[name].null_count > 0:
                texts = values[name]
                kept.update(index for index in pc.indices_nonzero(found[name].is_null()).to_pylist() if texts[index])
        return _rarely({index: bodies[index] for index in kept}, len(bodies), pa.binary())


def _read_slowly(kind: type[msgspec.Struct], body: bytes) -> tuple[msgspec.Struct, Mapping[str, str], str]:
    """One that has attributes which are not ours, or is no envelope: nothing of it, and why."""
    fields = kind.__struct_fields__
    try:
        message = decode(body)
    except MalformedEnvelope as error:
        return kind(**{name: NO_DATA if name == "data" else None for name in fields}), {}, str(error)
    return kind(**{name: getattr(message, name) for name in fields}), message.extensions, ""


def _kind(names: Sequence[str]) -> type[msgspec.Struct] | None:
    """An envelope of just the attributes that are wanted; ``None`` where none is."""
    wanted_ones = [name for name in names if name in _OF_THE_ENVELOPE]
    if not wanted_ones:
        return None
    # With extensions a member that is not ours must be noticed, and so every one that is must be known.
    has_extensions = "extensions" in wanted_ones
    # These three make an envelope, wanted or not.
    fields: list[Any] = [("id", str), ("source", str), ("type", str)]
    for name in _OF_THE_ENVELOPE if has_extensions else wanted_ones:
        if name in ("id", "source", "type", "extensions", "malformed", ORIGINAL):
            continue
        if name == "data":
            # What says that there is none is no value of it.
            fields.append((name, msgspec.Raw, NO_DATA))
        else:
            fields.append((name, (bytes if name == "data_base64" else str) | None, None))
    return msgspec.defstruct(
        "Envelope",
        fields,
        frozen=True,
        gc=False,
        tag_field="specversion",
        tag="1.0",
        forbid_unknown_fields=has_extensions,
    )


def _rarely(values: Mapping[int, Any], count: int, kind: pa.DataType) -> pa.Array:
    """A column of these values and of nulls."""
    if not values:
        return pa.nulls(count, kind)
    rows: list[Any] = [None] * count
    for index, value in values.items():
        rows[index] = value
    return pa.array(rows, kind)


def _repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _column(name: str, values: Sequence[Any]) -> pa.Array:
    if name in INSTANTS:
        return _instants(values)
    return pa.array(values, pa.binary()) if name == "data_base64" else said(_strings(values))


def said(column: pa.Array) -> pa.Array:
    """An attribute that says nothing is one that is not there, as our own envelopes have it."""
    if column.null_count == len(column):
        return column
    empty = pc.equal(pc.binary_length(column), 0)
    return pc.if_else(empty, pa.scalar(None, column.type), column) if pc.any(empty).as_py() else column


def _strings(values: Sequence[str | None]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        # Half a surrogate pair, which JSON can write and UTF-8 cannot.
        return pa.array([value and value.encode("utf-8", "replace").decode() for value in values], pa.string())


def _texts(values: Sequence[bytes]) -> pa.Array:
    column = said(pa.array(values, pa.binary()))
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode("utf-8", "replace") or None for value in values], pa.string())


def _instants(values: Sequence[str | None]) -> pa.Array:
    """By Arrow where each is written as we write them; one that is no instant is null."""
    texts = [value or None for value in values]
    try:
        return pa.array(texts, pa.string()).cast(INSTANT)
    except (pa.ArrowInvalid, UnicodeEncodeError):
        return pa.array([_instant(text) for text in texts], INSTANT)


def _instant(text: str | None) -> datetime.datetime | None:
    if not text:
        return None
    try:
        found = datetime.datetime.fromisoformat(text)
        return found if found.tzinfo is not None else None
    except (ValueError, OverflowError):
        pass
    try:
        return to_datetime(from_rfc3339(text))
    except (ValueError, OverflowError):
        return None
