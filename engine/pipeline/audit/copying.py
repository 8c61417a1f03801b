"""Copies that replays and redrives made, wherever in the lake they lie: by the message that each of them names.

Of each file the groups of rows that hold a copy are read, as their statistics tell, and no others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.core.error_text import words_of
from engine.pipeline.audit.gathering import Topic, named
from engine.pipeline.audit.hashing import hash_texts, signed
from engine.pipeline.audit.scope import Scope
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.schema import LEDGER_SOURCE
from engine.pipeline.lake.state import Kind, LakeFile, LakeState

_COPY, _OF, _SOURCE = "hbusreplay", "causationid", "source"
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class CopiesInLake:
    """By the topic that they lie in and the source of what they are of: the hashes of the ids of that."""

    of: Mapping[str, Mapping[str, NDArray[np.int64]]]


@dataclass(frozen=True, slots=True)
class Copied:
    """Messages of a topic that were copied, each once."""

    messages: int
    #: By the topic that its copies lie in.
    into: Mapping[str, int]


def copies_in(root: Path, state: LakeState, from_date: str, go_on: Callable[[], None] = lambda: None) -> CopiesInLake:
    """All that were stored on that day or later. Raises :class:`~engine.pipeline.lake.errors.LakeDamaged`."""
    found: dict[str, dict[str, list[NDArray[np.int64]]]] = defaultdict(lambda: defaultdict(list))
    for file in state.files.values():
        if file.kind is Kind.MESSAGES and file.date >= from_date:
            go_on()
            for source, ids in _read(root, file):
                found[file.topic][source].append(ids)
    return CopiesInLake(
        {
            topic: {source: np.unique(np.concatenate(parts)) for source, parts in sources.items()}
            for topic, sources in found.items()
        }
    )


def copied_of(topic: Topic, scope: Scope, copies: CopiesInLake) -> Copied:
    """Of the messages of the span that the lake has."""
    wanted = {into: _named(topic.sources, sources) for into, sources in copies.of.items()}
    wanted = {into: idents for into, idents in wanted.items() if len(idents)}
    if not wanted:
        return Copied(0, {})
    into = dict.fromkeys(wanted, 0)
    messages = 0
    for low, high in topic.ranges():
        rows = topic.messages.between(low, high, ("id", "source", "at"))
        idents = np.unique(named(rows["id"], rows["source"])[scope.holds(rows["at"])])
        is_copied = np.zeros(len(idents), bool)
        for name, those in wanted.items():
            is_there = np.isin(idents, those)
            into[name] += int(np.count_nonzero(is_there))
            is_copied |= is_there
        messages += int(np.count_nonzero(is_copied))
    return Copied(messages, {name: count for name, count in sorted(into.items()) if count})


def _named(sources: Sequence[str], copies: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """As the topic names its messages; what is of a source that it has none of is of no message of it."""
    numbers = {source: number for number, source in enumerate(sources)}
    parts = [named(ids, np.full(len(ids), numbers[source])) for source, ids in copies.items() if source in numbers]
    return np.concatenate(parts) if parts else _NONE


def _read(root: Path, file: LakeFile) -> Iterable[tuple[str, NDArray[np.int64]]]:
    try:
        with pq.ParquetFile(root / file.path) as parquet:
            groups = [number for number in range(parquet.num_row_groups) if _has_copies(parquet.metadata, number)]
            if not groups:
                return []
            table = parquet.read_row_groups(groups, columns=[_COPY, _OF, _SOURCE])
    except (OSError, pa.ArrowException) as error:
        raise LakeDamaged(
            f"{file.path} cannot be read: {words_of(error)}.",
            remedy="`manage.py archive verify` tells which files are damaged.",
        ) from error
    table = table.filter(pc.and_(pc.is_valid(table[_COPY]), pc.is_valid(table[_OF])))
    ids = signed(hash_texts(table[_OF]))
    sources = np.array([str(source or "")[:LEDGER_SOURCE] for source in table[_SOURCE].to_pylist()], object)
    return [(source, ids[sources == source]) for source in set(sources.tolist())]


def _has_copies(metadata: pq.FileMetaData, number: int) -> bool:
    group = metadata.row_group(number)
    for place in range(group.num_columns):
        column = group.column(place)
        if column.path_in_schema == _COPY:
            told = column.statistics
            return told is None or not told.has_null_count or bool(told.null_count < group.num_rows)
    return False
