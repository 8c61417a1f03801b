"""What an audit needs of one file of the lake: a pure function of its rows and of when they were archived."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engine.pipeline.audit.hashing import OTHER, hash_texts, signed
from engine.pipeline.audit.history import LogHistory
from engine.pipeline.audit.runs import runs_of
from engine.pipeline.audit.sides import Array
from engine.pipeline.lake.reading import read_checked
from engine.pipeline.lake.schema import KEY_HASH, LEDGER_ID, LEDGER_SOURCE
from engine.pipeline.lake.state import Kind, LakeFile

#: How far a producer's clock may be off, milliseconds. Beyond it the message belongs to the window it was stored in.
SKEW_MS = 300_000
#: Of a message: bits of ``flags``.
COPY, DUE, SKEWED, LONG_ID = 1, 2, 4, 8
#: Columns of few texts, of which a side names each once.
_NAMED = frozenset({"source", "hbustarget", "subscription", "kind"})
#: Stands for none where a column names a text by its place.
NONE = -1

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Summed:
    """The columns of a side, and the texts they name."""

    names: Mapping[str, list[str]]
    columns: Mapping[str, Array]


def summed(root: Path, file: LakeFile, history: LogHistory) -> Summed:
    """Of one file. Raises :class:`~engine.pipeline.lake.errors.LakeDamaged`."""
    read, sum_up = _OF[file.kind]
    coded = [name for name in read if name in _NAMED]
    return sum_up(read_checked(root, file, read, coded=coded), history)


def _messages(table: pa.Table, history: LogHistory) -> Summed:
    """A message that no id names, for it was no envelope, has a row among those that begin with ``odd_``."""
    stored = ms_of(table["stored_at"])
    size = _ints(table["size"])
    odd = _is_null(table["id"])
    rows = np.flatnonzero(~odd)
    at, flags = event_times(table, stored)
    source, sources = _named(table["source"])
    # The ledger keeps no more of it.
    sources = [text[:LEDGER_SOURCE].replace("\0", "") for text in sources]
    target, targets = _named(table["hbustarget"])
    ids = hash_texts(_as_told(table["id"]))
    columns: dict[str, Array] = {
        "id": signed(ids),
        "source": source,
        "at": at,
        "stored": stored,
        "size": size,
        "payload": signed(_payloads(table, ids)),
        "flags": flags,
        "target": target,
        "archived": history.archived_after(stored),
        "row": np.arange(len(ids), dtype=np.int32),
    }
    order = rows[np.argsort(columns["id"][rows], kind="stable")]
    sorted_ones = {name: values[order] for name, values in columns.items()}
    of_odd = {f"odd_{name}": columns[name][odd] for name in ("at", "stored", "size", "row")}
    runs = runs_of(
        keys=_ints(table[KEY_HASH]),
        sources=source,
        sequences=_sequences(table["sequence"]),
        times=np.where(_is_null(table["time"]), np.int64(-1), at),
        exempt=(flags & (COPY | DUE)) > 0,
        present=~_is_null(table[KEY_HASH]) & ~odd,
    )
    return Summed({"source": sources, "target": targets}, {**sorted_ones, **of_odd, **runs})


def _published(table: pa.Table, history: LogHistory) -> Summed:
    source, sources = _named(table["source"])
    ids = signed(hash_texts(table["message_id"]))
    order = np.argsort(ids, kind="stable")
    columns: dict[str, Array] = {
        "id": ids,
        "source": source,
        "at": ms_of(table["published_at"]),
        "size": _ints(table["size"]),
        "row": np.arange(len(ids), dtype=np.int32),
    }
    return Summed({"source": sources}, {name: values[order] for name, values in columns.items()})


def _deliveries(table: pa.Table, history: LogHistory) -> Summed:
    """What was no envelope is dead without a name, and has a row among those that begin with ``odd_``."""
    names: dict[str, list[str]] = {}
    columns: dict[str, Array] = {
        "id": signed(hash_texts(table["message_id"])),
        "at": ms_of(table["at"]),
        "attempt": _ints(table["attempt"]).astype(np.int32),
        "row": np.arange(len(table), dtype=np.int32),
    }
    for name in ("source", "subscription", "kind"):
        columns[name], names[name] = _named(table[name])
    # Of what was no envelope an audit tells as malformed.
    has_name = pc.fill_null(pc.not_equal(table["message_id"], ""), False).to_numpy()
    rows = np.flatnonzero(has_name)
    # What is told of one message lies in the order in which it was booked, and stays in it.
    order = rows[np.argsort(columns["id"][rows], kind="stable")]
    of_odd = {f"odd_{name}": columns[name][~has_name] for name in ("at", "subscription", "kind")}
    return Summed(names, {**{name: values[order] for name, values in columns.items()}, **of_odd})


_OF: Mapping[Kind, tuple[tuple[str, ...], Callable[[pa.Table, LogHistory], Summed]]] = {
    Kind.MESSAGES: (
        (
            *("id", "source", "sequence", "time", "stored_at", "size", "data", "data_base64"),
            *("hbusreplay", "hbusdue", "hbustarget", KEY_HASH),
        ),
        _messages,
    ),
    Kind.PUBLISHED: (("message_id", "source", "published_at", "size"), _published),
    Kind.DELIVERIES: (
        ("message_id", "source", "subscription", "kind", "at", "attempt"),
        _deliveries,
    ),
}


def event_times(table: pa.Table, stored: Ints) -> tuple[Ints, NDArray[np.uint8]]:
    """When each happened, epoch milliseconds, by its producer as far as that is believed; and its flags. ``stored``:
    when each was."""
    said = ~_is_null(table["time"])
    time = np.where(said, ms_of(table["time"]), stored)
    is_copy, is_due = ~_is_null(table["hbusreplay"]), ~_is_null(table["hbusdue"])
    away = np.abs(time - stored) > SKEW_MS
    flags = is_copy * COPY | is_due * DUE | (away & ~is_copy & ~is_due) * SKEWED
    lengths = pc.fill_null(pc.utf8_length(table["id"]), 0).to_numpy()
    flags |= (lengths > LEDGER_ID) * LONG_ID
    return np.where(away, stored, time), flags.astype(np.uint8)


def _payloads(table: pa.Table, ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mixed with another hash of the id: two messages that have one hash by chance differ here."""
    seeds = hash_texts(table["id"], OTHER)
    made = hash_texts(table["data"], seeds)
    if table["data_base64"].null_count < len(table):
        made = hash_texts(table["data_base64"], made)
    return made


def _as_told(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """As the ledger has them, which keeps no NUL."""
    return pc.replace_substring(ids, "\0", "") if pc.any(pc.match_substring(ids, "\0")).as_py() else ids


def _sequences(column: pa.ChunkedArray) -> Ints:
    """-1 for what is no number that can be counted with."""
    if column.null_count == len(column):
        return np.full(len(column), -1, np.int64)
    counted = pc.match_substring_regex(column, r"^[0-9]{1,18}$")
    numbers = pc.if_else(counted, column, pa.scalar(None, pa.string())).cast(pa.int64())
    found: Ints = pc.fill_null(numbers, -1).to_numpy()
    return found


def _named(column: pa.ChunkedArray) -> tuple[NDArray[np.int32], list[str]]:
    """The place of each in the texts there are; :data:`NONE` for null."""
    coded = column.combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    return pc.fill_null(coded.indices, NONE).to_numpy().astype(np.int32), coded.dictionary.to_pylist()


def ms_of(column: pa.ChunkedArray) -> Ints:
    """Epoch milliseconds; 0 for null."""
    micros: Ints = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    return micros // 1000


def _ints(column: pa.ChunkedArray) -> Ints:
    found: Ints = pc.fill_null(column, 0).to_numpy()
    return found


def _is_null(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.is_null(column).to_numpy()
    return found
