"""Store, database and queue in memory, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from engine.cron.simulation.models import ModelDatabase, ModelQueue, ModelStore
from engine.cron.slots.driving import Act
from engine.cron.slots.job import CronJob
from engine.cron.slots.planning import Decision
from engine.cron.slots.steps import (
    Acquire,
    Begin,
    CancelledRuns,
    ClaimSlots,
    End,
    GiveUp,
    LeasesHeld,
    Offer,
    OpenRuns,
    Queued,
    ReadCursors,
    ReadOpen,
    ReadRun,
    Release,
    Renew,
    Step,
    WorkingNodes,
)


class Seconds:
    """Slots every so many seconds."""

    def __init__(self, period: int = 1) -> None:
        self._period = period

    def next_after(self, at: int) -> int | None:
        return (at // self._period + 1) * self._period


class Places:
    """The models of the simulator behind one :attr:`act`; each can be away."""

    def __init__(self, *jobs: CronJob) -> None:
        self.clock = ManualClock()
        self.begin = self.clock.now_ms() // 1000
        self.store, self.queue = ModelStore(), ModelQueue()
        self.database = ModelDatabase({job.name: job for job in jobs}, self.begin)
        #: Those whose steps are not answered.
        self.away: set[object] = set()
        #: Where workers live.
        self.nodes: tuple[str, ...] = ()
        self._calls: dict[type[Step], tuple[object, Callable[[Any, float], Any]]] = {
            ClaimSlots: (self.store, self.store.claim),
            Acquire: (self.store, self.store.acquire),
            Renew: (self.store, self.store.renew),
            Release: (self.store, self.store.release),
            LeasesHeld: (self.store, self.store.leases_held),
            ReadCursors: (self.database, self.database.read_cursors),
            OpenRuns: (self.database, self.database.open_runs),
            ReadRun: (self.database, self.database.read_run),
            Begin: (self.database, self.database.begin),
            End: (self.database, self.database.end),
            CancelledRuns: (self.database, self.database.cancelled),
            ReadOpen: (self.database, self.database.read_open),
            GiveUp: (self.database, self.database.give_up),
            Offer: (self.queue, self.queue.offer),
            Queued: (self.queue, self.queue.queued),
            WorkingNodes: (WorkingNodes, lambda step, now: self.nodes),
        }

    def now_s(self) -> float:
        return self.clock.now_ms() / 1000

    @property
    def act(self) -> Act:
        def act(step: Step) -> Any:
            place, call = self._calls[type(step)]
            if place in self.away:
                raise Unavailable("it does not answer")
            return call(step, self.now_s())

        return act

    def answers(self, kind: type[Step], call: Callable[[Any, float], Any]) -> None:
        """``call`` in the place of what answers that step."""
        self._calls[kind] = (self._calls[kind][0], call)

    def store_time(self) -> float:
        if self.store in self.away:
            raise Unavailable("it does not answer")
        return self.now_s()

    def slots(self, job: str) -> list[int]:
        """The seconds, from the beginning, of the slots that have a row."""
        return sorted(row.slot - self.begin for row in self.database.runs.values() if row.job == job)

    def claimed(self, names: Iterable[str] = ("close",)) -> list[int]:
        """A run of each job that waits for a worker, by its number."""
        for name in names:
            self.database.insert(name, Decision(self.begin), self.now_s())
        return list(self.database.runs)
