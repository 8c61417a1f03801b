"""What a node remembers of its jobs: by when each is to be looked at next."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from engine.cron.slots import planning
from engine.cron.slots.job import CronJob
from engine.cron.slots.steps import Cursor, SlotKey

#: A slot that another node has claimed is looked at again after so many seconds: by then it is decided, or nearly.
LOOK_AGAIN_S = 0.5


class _Turn(NamedTuple):
    """When one job is looked at; out of use once the job has another turn."""

    at: float
    #: The order among those of one instant: no two are alike.
    number: int
    job: str


class Timetable:
    """Jobs in the order of their next slots. Not thread-safe.

    Its memory is a guess that may be lost or late: what is decided by a cursor that others have moved is refused.
    A change of one job costs one turn in a heap, whatever the number of the others.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, CronJob] = {}
        self._cursors: dict[str, Cursor] = {}
        #: Jobs whose cursor is elsewhere, as it seems.
        self._doubted: set[str] = set()
        self._turns: dict[str, _Turn] = {}
        self._heap: list[_Turn] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, name: str) -> bool:
        return name in self._jobs

    def put(self, job: CronJob, at: int) -> None:
        """A job that is new or has changed. ``at``: up to which its slots are decided, as far as one knows."""
        self._jobs[job.name] = job
        self._remember(Cursor(job.name, job.version, at))

    def drop(self, name: str) -> None:
        """A job that is gone; one that is not there is left so."""
        for known in (self._jobs, self._cursors, self._turns):
            known.pop(name, None)
        self._doubted.discard(name)

    def next_at(self) -> float | None:
        """When the first of them is to be looked at, by the node's clock; ``None`` when no slot will come."""
        while self._heap and not self._is_used(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0].at if self._heap else None

    def due(self, now_s: float, most: int) -> list[str]:
        """Up to ``most`` jobs to look at, the longest due first. They stay due until something is learnt of them."""
        found: list[_Turn] = []
        while len(found) < most and (at := self.next_at()) is not None and at <= now_s:
            found.append(heapq.heappop(self._heap))
        for turn in found:
            heapq.heappush(self._heap, turn)
        return [turn.job for turn in found]

    def learn(self, asked: Collection[str], cursors: Iterable[Cursor]) -> None:
        """The cursors as they are now. A job without one is gone; one of another version waits for its :meth:`put`."""
        found = {cursor.job: cursor for cursor in cursors}
        self._doubted.difference_update(asked)
        for name in asked:
            cursor = found.get(name)
            if cursor is None:
                self.drop(name)
            elif cursor.version != self._jobs[name].version:
                self._turns.pop(name, None)
            elif cursor != self._cursors[name]:
                self._remember(cursor)

    def come(self, name: str, now_s: float) -> Iterator[tuple[CronJob, list[int]]]:
        """The job with its slots that have come, if any have."""
        if name in self._turns and (slots := planning.due_after(self._jobs[name], self._cursors[name].at, now_s)):
            yield self._jobs[name], slots

    def cursor(self, name: str) -> Cursor:
        return self._cursors[name]

    def doubt(self, names: Iterable[str]) -> None:
        """Their cursors may have been moved by others: they are to be read before anything is decided by them."""
        self._doubted.update(names)

    def doubted(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of ``names`` whose cursors are to be read."""
        return tuple(name for name in names if name in self._doubted)

    def look_again(self, slots: Iterable[SlotKey], now_s: float, store_s: float) -> None:
        """These could not be claimed: another node is at them, or by the store's clock they have not come."""
        for slot in slots:
            self._doubted.add(slot.job)
            self._put(slot.job, now_s + max(LOOK_AGAIN_S, slot.at - store_s))

    def put_off(self, name: str, at: float) -> None:
        """Not to be looked at before ``at``, by the node's clock."""
        self._put(name, at)

    def _remember(self, cursor: Cursor) -> None:
        self._cursors[cursor.job] = cursor
        slot = self._jobs[cursor.job].slots.next_after(cursor.at)
        if slot is None:
            self._turns.pop(cursor.job, None)
        else:
            self._put(cursor.job, slot)

    def _put(self, name: str, at: float) -> None:
        self._number += 1
        turn = self._turns[name] = _Turn(at, self._number, name)
        heapq.heappush(self._heap, turn)

    def _is_used(self, turn: _Turn) -> bool:
        return self._turns.get(turn.job) is turn
