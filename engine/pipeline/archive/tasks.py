"""One task of an archive run: a piece of a log, read and written into files that no commit names yet.

It may be tried again, at the same time or after it was killed: each try has files of its own, and just one of them is
handed to the commit.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.bus import BusConfig
from engine.pipeline.lake.schema import READ
from engine.pipeline.lake.state import LakeFile
from engine.pipeline.lake.writing import PortionFiles
from engine.pipeline.source.columns import Columns
from engine.pipeline.source.opening import opened
from engine.pipeline.source.planning import Portion
from engine.pipeline.source.reading import chunks


@dataclass(frozen=True, slots=True)
class ArchiveTask:
    """What to read, out of which store, and where to put it. Goes to other processes: it holds the store's address."""

    config: BusConfig
    root: Path
    run: str
    number: int
    topic: str
    portion: Portion

    def __repr__(self) -> str:
        return f"ArchiveTask({self.run}-{self.number}, {self.topic} {self.portion.log})"


def run_task(task: ArchiveTask) -> list[LakeFile]:
    """Raises ``Unavailable`` where the store does not answer, and ``OSError``."""
    files = PortionFiles(
        task.root, task.topic, task.portion.log, name=f"{task.run}-{task.number}-{secrets.token_hex(4)}"
    )
    columns = Columns(READ)
    with opened(task.config) as rereads:
        for rows in chunks(rereads, task.topic, task.portion):
            files.add(columns.table(rows), rows.at_ms)
    return files.close()


def in_this_process(tasks: Sequence[ArchiveTask]) -> Iterator[list[LakeFile]]:
    """One after the other: for so little that no cluster is worth its start."""
    return map(run_task, tasks)
