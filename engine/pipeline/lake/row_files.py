"""Rows of many topics, written into files of the lake by topic and day, that count only once a commit says so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from engine.pipeline.lake.schema import in_key_order
from engine.pipeline.lake.state import Kind, LakeFile, date_of
from engine.pipeline.lake.writing import BYTES, ROWS, path_of, write_file


@dataclass(slots=True)
class _Waiting:
    """Rows of one topic and day that are in no file yet."""

    #: Their earliest and their latest time.
    first_ms: int
    last_ms: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


@dataclass(slots=True)
class RowFiles:
    """The files of one kind of rows that one run writes; holds no more at once than one file may have. Their times may
    fall from row to row: each day has a file of its own all the same. Not thread-safe."""

    root: Path
    kind: Kind
    #: Part of every file's name: of one run and attempt, so that nobody writes the same one.
    name: str
    made: list[LakeFile] = field(default_factory=list)
    _waiting: dict[tuple[str, str], _Waiting] = field(default_factory=dict)

    def add(self, rows: pa.RecordBatch, at_ms: Sequence[int]) -> None:
        """What follows, each with its time: columns of the kind's schema but for the last. Raises ``OSError``."""
        places: dict[tuple[str, str], list[int]] = defaultdict(list)
        for index, (topic, moment) in enumerate(zip(rows["topic"].to_pylist(), at_ms, strict=True)):
            places[topic, date_of(moment)].append(index)
        for place, indices in places.items():
            of_it = rows if len(indices) == len(at_ms) else rows.take(pa.array(indices, pa.int64()))
            times = [at_ms[index] for index in indices]
            while self._waiting and self._is_full(of_it):
                self._write(max(self._waiting, key=lambda place: self._waiting[place].rows))
            waiting = self._waiting.setdefault(place, _Waiting(first_ms=times[0], last_ms=times[0]))
            waiting.batches.append(of_it)
            waiting.rows += of_it.num_rows
            waiting.bytes += of_it.nbytes
            waiting.first_ms, waiting.last_ms = min(waiting.first_ms, *times), max(waiting.last_ms, *times)

    def close(self) -> list[LakeFile]:
        """All that were made; those of a topic in the order of their rows, as far as days do not overlap."""
        for place in list(self._waiting):
            self._write(place)
        return sorted(self.made, key=lambda file: (file.topic, int(file.last)))

    def _is_full(self, more: pa.RecordBatch) -> bool:
        rows = sum(each.rows for each in self._waiting.values()) + more.num_rows
        size = sum(each.bytes for each in self._waiting.values()) + more.nbytes
        return bool(rows > ROWS or size > BYTES)

    def _write(self, place: tuple[str, str]) -> None:
        waiting, (topic, date) = self._waiting.pop(place), place
        table = pa.Table.from_batches(waiting.batches)
        numbers = table["row_id"].to_pylist()
        self.made.append(
            write_file(
                self.root,
                in_key_order(table, self.kind),
                LakeFile(
                    path=path_of(self.kind, topic, date, f"{self.name}-{len(self.made)}"),
                    kind=self.kind,
                    topic=topic,
                    log=self.kind,
                    date=date,
                    rows=table.num_rows,
                    bytes=0,
                    weight=0,
                    sha256="",
                    first_ms=waiting.first_ms,
                    last_ms=waiting.last_ms,
                    first=str(min(numbers)),
                    last=str(max(numbers)),
                ),
            )
        )
