"""Sides: of each file of the lake what an audit needs of it, as columns of numbers, so that no event is read twice.

A side is derived and never the truth: one that is missing, damaged, of another form or of another content is computed
again, and one whose file is gone is swept. It is mapped into memory, and what is not looked at costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.core.prepared import prepared
from engine.pipeline.lake.files import DATA, FILE_SUFFIX, make_whole
from engine.pipeline.lake.lake import GRACE_S, Lake
from engine.pipeline.lake.state import LakeFile

SIDES = "sides"
#: What a side holds and how; another number makes all of them worthless.
FORM = 3
#: What an audit compares; and which payloads do not fit their schemas, see :mod:`~engine.pipeline.audit.fitting`.
COMPARED, FITTED = ".side", ".fit"
_HEADER = b"hbus"

Array = NDArray[Any]


class SideHeader(msgspec.Struct, frozen=True, gc=False):
    """What a side says of itself."""

    form: int
    #: SHA-256 of the file it is of.
    sha256: str
    #: Texts that columns name by their places in these: of sources, subscriptions …
    names: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Side:
    """The columns of one file. Those of rows are sorted by ``id``; those that begin with ``run_`` are not of rows."""

    file: LakeFile
    names: Mapping[str, Sequence[str]]
    columns: Mapping[str, Array]

    @property
    def rows(self) -> int:
        return len(self.columns["id"])


def path_of_side(root: Path, file: LakeFile, which: str = COMPARED) -> Path:
    return root / SIDES / PurePosixPath(file.path).relative_to(DATA).with_suffix(which)


def write_side(
    root: Path,
    file: LakeFile,
    names: Mapping[str, Sequence[str]],
    columns: Mapping[str, Array],
    which: str = COMPARED,
) -> None:
    """In place of what may be there. Raises ``OSError``."""
    header = SideHeader(FORM, file.sha256, {name: list(texts) for name, texts in names.items()})
    # A row of lists: columns may be of different lengths.
    lists = {
        name: pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), pa.array(values))
        for name, values in columns.items()
    }
    batch = pa.RecordBatch.from_pydict(lists, metadata=None).replace_schema_metadata(
        {_HEADER: msgspec.json.encode(header)}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body = sink.getvalue()
    path = path_of_side(root, file, which)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(draft: Path) -> None:
        with draft.open("wb") as out:
            out.write(body)
            out.write(_sum(body).tobytes())

    # Its sum tells whether it is as it was made: waiting for the disk would cost a first audit more than it saves.
    make_whole(path, write, stays=False)


def read_side(root: Path, file: LakeFile, which: str = COMPARED) -> Side | None:
    """``None`` where there is none that can be used."""
    try:
        with pa.memory_map(str(path_of_side(root, file, which))) as mapped:
            content = mapped.read_buffer()
        body = content.slice(0, max(0, len(content) - 8))
        if len(body) % 8 or bytes(content.slice(len(body))) != _sum(body).tobytes():
            return None
        batch = pa.ipc.open_stream(body).read_next_batch()
        header = msgspec.json.decode(batch.schema.metadata[_HEADER], type=prepared(SideHeader))
    except (OSError, pa.ArrowException, msgspec.DecodeError, KeyError, TypeError):
        return None
    if header.form != FORM or header.sha256 != file.sha256:
        return None
    columns = {
        name: batch.column(place).values.to_numpy(zero_copy_only=True) for place, name in enumerate(batch.schema.names)
    }
    return Side(file, header.names, columns)


def sweep_sides(lake: Lake) -> int:
    """Remove those of files that are gone, and what killed tasks left of some; how many they were.

    A file that counts no more lies there for a while, for whoever reads what counted a moment ago; so does its side.
    """
    long_ago_s = lake.clock.now_ms() / 1000 - GRACE_S
    removed = 0
    for path in sorted((lake.root / SIDES).rglob("*")):
        if path.suffix == ".tmp":
            # It may be somebody's who is just writing it.
            stays = _changed_s(path) > long_ago_s
        else:
            stays = path.suffix not in (COMPARED, FITTED) or _file_of(lake.root, path).exists()
        if not stays:
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def _file_of(root: Path, side: Path) -> Path:
    return root / DATA / side.relative_to(root / SIDES).with_suffix(FILE_SUFFIX)


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")


def _sum(body: pa.Buffer) -> NDArray[np.uint64]:
    """Tells whether it is as it was written: by chance it is another with the same sum once in 2**64 times."""
    words = np.frombuffer(body, np.uint64)
    return np.array(words.sum(dtype=np.uint64) ^ np.uint64(len(words)), np.uint64)
