"""The sides of some files: what is there is read, what is not is computed, and no file is read twice for anybody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from engine.pipeline.audit.history import History, LogHistory, history_of
from engine.pipeline.audit.sides import SIDES, Side, read_side
from engine.pipeline.audit.tasks import ExecuteSides, SideTask, in_threads
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.state import Kind, LakeFile


@dataclass(frozen=True, slots=True)
class Looked:
    """By path of the file, and how many of them had to be computed."""

    sides: dict[str, Side]
    computed: int


@dataclass(frozen=True, slots=True)
class SideReader:
    """Of one lake."""

    lake: Lake
    execute: ExecuteSides = field(default_factory=in_threads)
    #: Sides that are read at once.
    cores: int = 2
    #: Called between two of them; what it raises ends it, and what was computed stays.
    go_on: Callable[[], None] = lambda: None

    def look(self, files: Sequence[LakeFile], history: History | None = None) -> Looked:
        """``history`` is that of the lake, for who has it. Raises
        :class:`~engine.pipeline.lake.errors.LakeDamaged`, ``OSError``, and what ``execute`` and ``go_on`` raise."""
        root = self.lake.root
        sides = self._read(files)
        missing = [file for file in files if file.path not in sides]
        if not missing:
            return Looked(sides, 0)
        told = history or history_of(self.lake, root / SIDES)
        tasks = [SideTask(root, file, _history(told, file)) for file in missing]
        for _ in self.execute(tasks):
            self.go_on()
        sides |= self._read(missing)
        for file in missing:
            if file.path not in sides:
                raise LakeDamaged(
                    f"The side of {file.path} is not as it was just written.",
                    remedy="Is the disk well, and does nobody else write below sides/? Try again.",
                )
        return Looked(sides, len(tasks))

    def _read(self, files: Sequence[LakeFile]) -> dict[str, Side]:
        with ThreadPoolExecutor(self.cores) as pool:
            read = pool.map(lambda file: read_side(self.lake.root, file), files)
            return {file.path: side for file, side in zip(files, read, strict=True) if side is not None}


def _history(history: History, file: LakeFile) -> LogHistory:
    steps = history.of(file.topic).logs.get(file.log) if file.kind is Kind.MESSAGES else None
    return steps.within(file.first_ms, file.last_ms) if steps is not None else LogHistory()
