"""Rows as envelopes, the other way round than :mod:`engine.pipeline.source.columns`.

Most rows hold nothing that JSON would escape or the bus look at twice: of these all are written at once, column by
column. Any other row goes by itself through the bus's own writing and checking, so that there is one law of what an
envelope is. Both ways write the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from engine.bus import MalformedEnvelope, Message, check, decode, encode
from engine.core.clock import to_rfc3339
from engine.core.errors import BadInput
from engine.core.strict_json import NotJson, read_json
from engine.pipeline.sink.errors import RowRefused
from engine.pipeline.source.columns import COLUMNS, INSTANTS, OF_THE_LOG, ORIGINAL, TEXTS, said, spark_type_of

NEEDED = ("id", "source", "type")
#: Beyond this an instant has another length as text, and is looked at by itself.
_INSTANT_LENGTHS = (len("2026-11-21T08:00:00.000Z"), len("2026-11-21T08:00:00.000000Z"))
#: Text that stands in JSON as it is, and is so short that every attribute may hold it.
_PLAIN = r"^[ !#-\[\]-~]{1,%d}$"
_SHORT, _USUAL = 64, 128
_TRACEPARENT = r"^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"
#: Half of a trace id, or a span id, that the standard allows no trace to have.
_NO_TRACE = "-" + "0" * 16
_PRIORITY = "^(low|normal|high)$"
#: In what order an envelope is written.
_MEMBERS = tuple(name for name in Message.__struct_fields__ if name in TEXTS or name in INSTANTS)


@dataclass(frozen=True, slots=True)
class Envelopes:
    """Columns of one length."""

    ids: Sequence[str]
    sources: Sequence[str]
    partitionkeys: Sequence[str | None]
    priorities: Sequence[str | None]
    bodies: Sequence[bytes]


def taken(columns: Mapping[str, str]) -> tuple[str, ...]:
    """Those columns of a table, by name and Spark's type, that make envelopes.

    What a log tells of a message is passed over, for the new one has its own; its position names it where it has no id.
    Raises :class:`BadInput` for what is missing, of another type, or no column of ours.
    """
    for name in NEEDED:
        if name not in columns:
            raise BadInput(f"There is no column {name}.", remedy="Every message needs one.", field=name)
    for name, kind in columns.items():
        if name not in COLUMNS:
            raise BadInput(
                f"{name!r} is no column of a topic.",
                remedy="Drop it, or put it into extensions or data.",
                field=name,
            )
        if kind != spark_type_of(name):
            raise BadInput(f"The column {name} is a {kind}.", remedy=f"Cast it to {spark_type_of(name)}.", field=name)
    return tuple(name for name in columns if name not in OF_THE_LOG or name == "position")


def with_malformed_left_out(table: pa.RecordBatch) -> pa.RecordBatch:
    """The rows whose columns tell an envelope."""
    mask = None
    for name in ("malformed", ORIGINAL):
        if name in table.schema.names and table.column(name).null_count < len(table):
            nothing = table.column(name).is_null()
            mask = nothing if mask is None else pc.and_(mask, nothing)
    return table if mask is None else table.filter(mask)


def refuse_malformed(table: pa.RecordBatch) -> None:
    """Raise :class:`RowRefused` for the first row whose columns do not tell an envelope."""
    for name in ("malformed", ORIGINAL):
        if name not in table.schema.names or table.column(name).null_count == len(table):
            continue
        at = pc.index(table.column(name).is_valid(), value=True).as_py()
        why = table.column(name)[at].as_py() if name == "malformed" else "an instant of it is none, see original"
        position = table.column("position")[at].as_py() if "position" in table.schema.names else None
        raise RowRefused(
            table.column("id")[at].as_py() or (position and f"at {position}"),
            f"it is malformed ({why}).",
            "Set malformed to skip to leave such rows out, or filter them.",
            name,
        )


def envelopes_of(table: pa.RecordBatch, now_ms: int) -> Envelopes:
    """Of rows that are not malformed. Raises :class:`RowRefused` for the first that nobody may publish now."""
    columns = {name: table.column(name) for name in table.schema.names}
    texts = _texts_of(columns)
    data = _data_of(columns, len(table))
    _check_instants(columns, now_ms)
    _check_json(columns["id"], data)
    bodies = _joined(texts, data)
    odd = pc.invert(_plain(texts, columns))
    if pc.any(odd).as_py():
        for at in pc.indices_nonzero(odd).to_pylist():
            bodies[at] = _by_itself(texts, data, columns, at)
    nothing: list[str | None] = [None] * len(table)
    return Envelopes(
        ids=texts["id"].to_pylist(),
        sources=texts["source"].to_pylist(),
        partitionkeys=texts["partitionkey"].to_pylist() if "partitionkey" in texts else nothing,
        priorities=texts["hbuspriority"].to_pylist() if _has_any(texts.get("hbuspriority")) else nothing,
        bodies=bodies,
    )


def messages_of(table: pa.RecordBatch) -> list[Message | None]:
    """The messages of rows as they were archived, whoever may publish them now; ``None`` for one that is malformed."""
    columns = {name: table.column(name) for name in table.schema.names}
    texts, data = _texts_of(columns), _data_of(columns, len(table))
    originals = columns[ORIGINAL].to_pylist() if _has_any(columns.get(ORIGINAL)) else [None] * len(table)
    # All values of a column at once, which is far cheaper than asking for each.
    values = {name: column.to_pylist() for name, column in texts.items() if _has_any(column)}
    return [
        _message({name: column[at] or "" for name, column in values.items()}, data, columns, at)
        if original is None
        else _decoded(original)
        for at, original in enumerate(originals)
    ]


def _decoded(body: bytes) -> Message | None:
    try:
        return decode(body)
    except MalformedEnvelope:
        return None


def _texts_of(columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    texts = {name: said(columns[name]) for name in TEXTS if name in columns}
    return texts | {name: _as_text(columns[name]) for name in INSTANTS if name in columns}


def _data_of(columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    return said(columns["data"]) if "data" in columns else pa.nulls(rows, pa.string())


def _has_any(column: pa.Array | None) -> bool:
    return column is not None and column.null_count < len(column)


def _as_text(column: pa.Array) -> pa.Array:
    """RFC 3339 in UTC: with milliseconds as we write them, or with microseconds where one has some."""
    if not _has_any(column):
        return pa.nulls(len(column), pa.string())
    # Without its zone it is written twenty times as fast.
    plain = column.cast(pa.int64()).cast(pa.timestamp("us"))
    with suppress(pa.ArrowInvalid):
        plain = plain.cast(pa.timestamp("ms"))
    with_blank = plain.cast(pa.string())
    return pc.binary_join_element_wise(pc.binary_replace_slice(with_blank, 10, 11, "T"), "Z", "")


def _plain(texts: Mapping[str, pa.Array], columns: Mapping[str, pa.Array]) -> pa.Array:
    """Which rows nobody need look at twice."""
    masks = [columns[name].is_null() for name in ("data_base64", "extensions") if _has_any(columns.get(name))]
    for name, column in texts.items():
        if name not in NEEDED and not _has_any(column):
            continue
        if name in INSTANTS:
            mask = pc.is_in(pc.binary_length(column), pa.array(_INSTANT_LENGTHS, pa.int32()))
            # A null length is in no list.
            mask = pc.or_(mask, column.is_null())
        elif name == "traceparent":
            zeros = pc.match_substring(column, _NO_TRACE)
            mask = pc.and_(pc.match_substring_regex(column, _TRACEPARENT), pc.invert(zeros))
        elif name == "hbuspriority":
            mask = pc.match_substring_regex(column, _PRIORITY)
        else:
            most = _SHORT if name in ("id", "causationid") else _USUAL
            mask = pc.match_substring_regex(column, _PLAIN % most)
        masks.append(mask.fill_null(name not in NEEDED) if mask.null_count else mask)
    found = masks[0]
    for mask in masks[1:]:
        found = pc.and_(found, mask)
    return found


def _joined(texts: Mapping[str, pa.Array], data: pa.Array) -> list[bytes]:
    """What the envelopes of all rows are if all of them are plain."""
    pieces: list[Any] = []
    begun = '{"specversion":"1.0"'
    for name in (*_MEMBERS, "data"):
        column = data if name == "data" else texts.get(name)
        if column is None or (not _has_any(column) and name not in NEEDED):
            continue
        quote = "" if name == "data" else '"'
        before = f',"{name}":{quote}'
        if column.null_count:
            pieces += (begun, pc.binary_join_element_wise(before, column, quote, ""))
            begun = ""
        else:
            pieces += (begun + before, column)
            begun = quote
    joined = pc.binary_join_element_wise(*pieces, begun + "}", "", null_handling="skip")
    bodies: list[bytes] = joined.cast(pa.binary()).to_pylist()
    return bodies


def _message(texts: Mapping[str, str], data: pa.Array, columns: Mapping[str, pa.Array], at: int) -> Message:
    """Of one row, whose attributes that are texts are these."""
    attributes: dict[str, Any] = dict(texts)
    if data[at].is_valid:
        attributes["data"] = msgspec.Raw(data[at].as_py().encode())
    if "data_base64" in columns:
        attributes["data_base64"] = columns["data_base64"][at].as_py()
    if "extensions" in columns:
        attributes["extensions"] = dict(columns["extensions"][at].as_py() or ())
    return Message(**attributes)


def _by_itself(texts: Mapping[str, pa.Array], data: pa.Array, columns: Mapping[str, pa.Array], at: int) -> bytes:
    message = _message({name: column[at].as_py() or "" for name, column in texts.items()}, data, columns, at)
    row = message.id
    try:
        body = encode(message)
        # As whoever receives it: also how extensions may be called has its law.
        check(received := decode(body))
    except MalformedEnvelope as error:
        raise RowRefused(row, error.what, error.remedy, error.field) from error
    except (TypeError, ValueError) as error:
        raise RowRefused(row, f"{error}.", "Give each extension a text.", "extensions") from error
    if received != message:
        raise RowRefused(
            row,
            "its extensions hold an attribute that is none.",
            "What has a column of its own belongs there.",
            "extensions",
        )
    return body


def _check_instants(columns: Mapping[str, pa.Array], now_ms: int) -> None:
    now = pa.scalar(now_ms * 1000, pa.int64()).cast(COLUMNS["time"])
    for name, late, why, remedy in (
        (
            "expirytime",
            pc.less_equal,
            "it expired {}, and every subscription would settle it unhandled.",
            "Leave such rows out, or take their expirytime away.",
        ),
        (
            "hbusdue",
            pc.greater,
            "it is not due before {}, and this writes for now.",
            "Leave such rows out, take their hbusdue away, or publish them through the API.",
        ),
    ):
        if not _has_any(columns.get(name)):
            continue
        found = late(columns[name], now)
        if pc.any(found).as_py():
            at = pc.index(found, value=True).as_py()
            said_ms = columns[name][at].value // 1000
            raise RowRefused(columns["id"][at].as_py(), why.format(to_rfc3339(said_ms)), remedy, name)


def _check_json(ids: pa.Array, data: pa.Array) -> None:
    if not _has_any(data):
        return
    for at, text in enumerate(data.cast(pa.binary()).to_pylist()):
        try:
            if text is not None:
                read_json(text)
        except NotJson as error:
            raise RowRefused(
                ids[at].as_py(),
                f"its data is not JSON that everybody reads: {error}.",
                "Write JSON into data, and bytes into data_base64.",
                "data",
            ) from error
