"""One task of an audit: the side of one file. It may be tried again, at the same time or after it was killed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from engine.pipeline.audit.history import LogHistory
from engine.pipeline.audit.sides import write_side
from engine.pipeline.audit.summing import summed
from engine.pipeline.lake.state import LakeFile


@dataclass(frozen=True, slots=True)
class SideTask:
    """Whose side to compute. Goes to other processes."""

    root: Path
    file: LakeFile
    #: When what is in it was archived.
    history: LogHistory


#: Runs tasks, wherever, and gives the path of each's file once its side is there.
ExecuteSides = Callable[[Sequence[SideTask]], Iterable[str]]


def run_side_task(task: SideTask) -> str:
    """Raises ``OSError``, and :class:`~engine.pipeline.lake.errors.LakeDamaged` for a file that is not as committed."""
    found = summed(task.root, task.file, task.history)
    write_side(task.root, task.file, found.names, found.columns)
    return task.file.path


def in_threads(number: int = 2) -> ExecuteSides:
    """In this process, so many at once: nearly all of a task is done without the interpreter's lock."""

    def execute(tasks: Sequence[SideTask]) -> Iterator[str]:
        with ThreadPoolExecutor(number) as pool:
            yield from pool.map(run_side_task, tasks)

    return execute
