"""A span, message after message: over all files and logs in the order of storing, from wherever one came to."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from heapq import heapify, heappop, heappush

from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.state import LakeFile, LakeState
from engine.pipeline.replay.span import Came, Order, ReplaySpan, files_in, order_of
from engine.pipeline.replay.spool import ReplayRow, Spool


class SpanReader:
    """Reads one span, part after part. Not thread-safe; whoever makes one closes it.

    Each part is read from the lake as it is then, so that what was erased meanwhile is not in it. A file stays in its
    order from part to part while it counts; those that are open at once are those of one moment of storing, one of each
    log as a rule.
    """

    def __init__(self, lake: Lake, span: ReplaySpan) -> None:
        self._lake, self._span = lake, span
        self._state = LakeState()
        self._spools: dict[str, Spool] = {}
        #: Where what a file has of the span ends, by its path; ``None``: it has nothing of it.
        self._ends: dict[str, Order | None] = {}

    def rows(self, came: Came) -> Generator[ReplayRow]:
        """Those beyond ``came``. Messages that the lake has twice come twice.

        Raises :class:`~engine.pipeline.lake.errors.LakeDamaged` and ``OSError``.
        """
        if self._state.version != self._lake.version():
            self._state = self._lake.state()
        beyond = {log: order_of(*reached) for log, reached in came.items()}
        files = [file for file in files_in(self._state, self._span, came) if not self._is_done(file, beyond)]
        self._keep({file.path for file in files})
        # A file that was not opened yet stands before all that it may hold.
        heap: list[tuple[Order, str, int]] = [((file.first_ms, ()), file.log, at) for at, file in enumerate(files)]
        heapify(heap)
        opened: dict[int, Iterator[ReplayRow]] = {}
        waiting: dict[int, ReplayRow] = {}
        while heap:
            _, log, at = heappop(heap)
            if at in opened:
                yield waiting.pop(at)
            else:
                opened[at] = self._spool(files[at]).after(beyond.get(log))
            if (row := next(opened[at], None)) is not None:
                waiting[at] = row
                heappush(heap, (row.order, log, at))

    def close(self) -> None:
        self._keep(set())

    def _is_done(self, file: LakeFile, beyond: dict[str, Order]) -> bool:
        if file.path not in self._ends:
            return False
        end = self._ends[file.path]
        return end is None or (file.log in beyond and beyond[file.log] >= end)

    def _spool(self, file: LakeFile) -> Spool:
        if file.path not in self._spools:
            spool = self._spools[file.path] = Spool(self._lake.root, file, self._span)
            self._ends[file.path] = spool.last
        return self._spools[file.path]

    def _keep(self, paths: set[str]) -> None:
        for path in self._spools.keys() - paths:
            self._spools.pop(path).close()
