"""Messages of one log, written into files of the lake that count only once a commit says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from engine.pipeline.lake.files import DATA, FILE_SUFFIX, folder_of, make_whole, sha256_of, sync_folder
from engine.pipeline.lake.schema import READ, REPEATED, SCHEMAS, in_key_order
from engine.pipeline.lake.state import Kind, LakeFile, date_of
from engine.pipeline.source.columns import schema_of

#: How much one file has at most: what a task sorts at once has to fit into its memory.
ROWS, BYTES = 250_000, 128 * 1024 * 1024
#: How many rows a reader may pass over at once, by their key or their time.
GROUP_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class _Batch:
    """Some messages of one day, in the order of their log."""

    rows: pa.RecordBatch
    at_ms: Sequence[int]

    @property
    def date(self) -> str:
        return date_of(self.at_ms[0])


@dataclass(slots=True)
class PortionFiles:
    """The files of one portion of a log, named after the run that writes them. Not thread-safe."""

    root: Path
    topic: str
    log: str
    #: Part of every file's name: of one run, task and attempt of it, so that nobody writes the same one.
    name: str
    made: list[LakeFile] = field(default_factory=list)
    _waiting: list[_Batch] = field(default_factory=list)

    def add(self, rows: pa.RecordBatch, at_ms: Sequence[int]) -> None:
        """What follows in the log, with the columns :data:`~engine.pipeline.lake.schema.READ`. Raises ``OSError``."""
        for batch in _by_day(rows, at_ms):
            if self._waiting and (self._waiting[0].date != batch.date or self._is_full(batch)):
                self._write()
            self._waiting.append(batch)

    def close(self) -> list[LakeFile]:
        """All that were made, in the order of storing."""
        if self._waiting:
            self._write()
        return self.made

    def _is_full(self, more: _Batch) -> bool:
        rows = sum(batch.rows.num_rows for batch in self._waiting) + more.rows.num_rows
        size = sum(batch.rows.nbytes for batch in self._waiting) + more.rows.nbytes
        return bool(rows > ROWS or size > BYTES)

    def _write(self) -> None:
        table = pa.Table.from_batches([batch.rows for batch in self._waiting], schema_of(READ))
        first, last = self._waiting[0], self._waiting[-1]
        self._waiting = []
        path = path_of(Kind.MESSAGES, self.topic, first.date, f"{self.name}-{len(self.made)}")
        self.made.append(
            write_file(
                self.root,
                in_key_order(table),
                LakeFile(
                    path=path,
                    kind=Kind.MESSAGES,
                    topic=self.topic,
                    log=self.log,
                    date=first.date,
                    rows=table.num_rows,
                    bytes=0,
                    weight=0,
                    sha256="",
                    first_ms=first.at_ms[0],
                    last_ms=last.at_ms[-1],
                    first=first.rows["position"][0].as_py(),
                    last=last.rows["position"][-1].as_py(),
                ),
            )
        )


def path_of(kind: Kind, topic: str, date: str, name: str) -> str:
    """Where a file of that name lies, below the lake's folder."""
    return f"{DATA}/{kind}/{folder_of(topic)}/{date}/{name}{FILE_SUFFIX}"


def write_file(root: Path, table: pa.Table, said: LakeFile) -> LakeFile:
    """``table``, in the order of its keys, at the place that ``said`` names; what it weighs is filled in."""
    path = root / said.path
    _make_folders(root, path.parent)

    def write(draft: Path) -> None:
        pq.write_table(
            table.cast(SCHEMAS[said.kind]),
            draft,
            compression="zstd",
            compression_level=1,
            row_group_size=GROUP_ROWS,
            use_dictionary=[name for name in REPEATED if name in table.schema.names],
            write_statistics=True,
        )

    make_whole(path, write)
    return msgspec.structs.replace(said, bytes=path.stat().st_size, weight=table.nbytes, sha256=sha256_of(path))


def _make_folders(root: Path, folder: Path) -> None:
    """Closed to others, and on disk before anything is in them."""
    missing: list[Path] = []
    while not folder.exists() and folder != root.parent:
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        sync_folder(each.parent)


def _by_day(rows: pa.RecordBatch, at_ms: Sequence[int]) -> Iterator[_Batch]:
    """Times never fall within a log: days follow each other."""
    if date_of(at_ms[0]) == date_of(at_ms[-1]):
        yield _Batch(rows, at_ms)
        return
    start = 0
    for _, day in groupby(at_ms, date_of):
        count = _length(day)
        yield _Batch(rows.slice(start, count), at_ms[start : start + count])
        start += count


def _length(items: Iterable[object]) -> int:
    return sum(1 for _ in items)
