"""What a node remembers of its jobs: by when each is to be looked at next."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice

from engine.cron.slots import planning
from engine.cron.slots.job import CronJob
from engine.cron.slots.steps import Cursor, SlotKey

#: A slot that another node has claimed is looked at again after so many seconds: by then it is decided, or nearly.
LOOK_AGAIN_S = 0.5
#: What is due for no longer than this is looked at first. In seconds: longer than a round over what is long due takes.
LATELY_S = 10.0


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
        #: When each job is looked at; the jobs of each such instant, in the order in which they came to it; and the
        #: instants as a heap, each once. Many jobs come at the same instant: the heap stays small.
        self._turns: dict[str, float] = {}
        self._jobs_at: dict[float, dict[str, None]] = {}
        self._instants: list[float] = []

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
        self._jobs.pop(name, None)
        self._cursors.pop(name, None)
        self._doubted.discard(name)
        self._take_out(name)

    def next_at(self) -> float | None:
        """When the first of them is to be looked at, by the node's clock; ``None`` when no slot will come."""
        while self._instants and not self._jobs_at[self._instants[0]]:
            del self._jobs_at[heapq.heappop(self._instants)]
        return self._instants[0] if self._instants else None

    def due(self, now_s: float, most: int) -> list[str]:
        """Up to ``most`` jobs to look at. They stay due until something is learnt of them.

        First what came within :data:`LATELY_S`, then the longest due: who has much to catch up with delays nobody who
        is in time.
        """
        instants: list[float] = []
        while (at := self.next_at()) is not None and at <= now_s:
            instants.append(heapq.heappop(self._instants))
        for at in instants:
            heapq.heappush(self._instants, at)
        lately = bisect_left(instants, now_s - LATELY_S)
        each = chain.from_iterable(self._jobs_at[at] for at in (*instants[lately:], *instants[:lately]))
        return list(islice(each, most))

    def learn(self, asked: Collection[str], cursors: Iterable[Cursor]) -> None:
        """The cursors as they are now. A job without one is gone; one of another version waits for its :meth:`put`."""
        found = {cursor.job: cursor for cursor in cursors}
        self._doubted.difference_update(asked)
        for name in asked:
            cursor = found.get(name)
            if cursor is None:
                self.drop(name)
            elif cursor.version != self._jobs[name].version:
                self._take_out(name)
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
            self._take_out(cursor.job)
        else:
            self._put(cursor.job, slot)

    def _put(self, name: str, at: float) -> None:
        self._take_out(name)
        if at not in self._jobs_at:
            self._jobs_at[at] = {}
            heapq.heappush(self._instants, at)
        self._turns[name] = at
        self._jobs_at[at][name] = None

    def _take_out(self, name: str) -> None:
        if (at := self._turns.pop(name, None)) is not None:
            del self._jobs_at[at][name]
