"""The play: moves the clock from one instant at which anything happens to the next, and lets everybody do it."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import redis
from django.db import transaction

from engine.core.clock import ManualClock, SystemClock
from engine.core.errors import Conflict, Unavailable
from engine.core.leases import Ownership
from engine.cron.slots.driving import Act
from engine.cron.slots.job import CronJob
from engine.cron.slots.node import SWEEP_S
from engine.cron.slots.steps import Acquire, ClaimSlots, LeasesHeld, ReadOpen, Release, Renew, RunRow, RunState, Step
from engine.cron.slots.timetable import LOOK_AGAIN_S
from hbus_console.jobs.judge import SlotJudge, asked
from hbus_console.jobs.models import JobCursor, JobRun
from hbus_console.jobs.places import places
from hbus_console.jobs.rehearsing.apart import PlayedSpan
from hbus_console.jobs.rehearsing.crew import RehearsedNode, RehearsedWorkers, Scene, rotating
from hbus_console.jobs.rehearsing.mishaps import Mishap, Mishaps
from hbus_console.jobs.rehearsing.store import RehearsedStore
from hbus_console.wiring import store

Answer = TypeVar("Answer")
#: While the store does not answer, the clock of the play stands still for so long at most, in seconds of ours.
PATIENCE_S, LOOK_S = 60.0, 0.2
#: A run that has been offered for so long will never begin, in seconds of the play; who is killed is back before.
STUCK_S = 2 * 3_600
#: One play at a time, under this lease; whoever finds it taken waits for as long as one that died would have it.
LEASE = "rehearsal"
#: The machine that all work is done on.
WORKERS = "night-worker"
_OF_THE_STORE = (ClaimSlots, Acquire, Renew, Release, LeasesHeld)


@dataclass(frozen=True, slots=True)
class Happened:
    """Something a person should know of, at an instant of the play."""

    at_s: float
    says: str


class Rehearsal:
    """One play of ``jobs``, which were set apart, through ``span``. :meth:`play` is called once.

    What happens at one instant is one transaction, and a longer one as long as a run is offered that nobody has begun:
    to anybody else it would have waited for as long as the span is past.
    """

    def __init__(
        self,
        jobs: Sequence[CronJob],
        span: PlayedSpan,
        client: redis.Redis,
        prefix: str,
        *,
        nodes: Sequence[str] = ("night-1", "night-2", "night-3"),
        mishaps: Sequence[Mishap] = (),
    ) -> None:
        #: What befell whom.
        self.happened: list[Happened] = []
        self._jobs = {job.name: job for job in jobs}
        self._span = span
        self._clock = ManualClock(span.begin_s * 1000)
        self._store = RehearsedStore(client, prefix, self._clock)
        self._stop = threading.Event()
        #: Once patience is at its end; nodes and workers take it for a moment's trouble.
        self._away: Unavailable | None = None
        judge = _OwnJudge(self._now_s, frozenset(self._jobs))
        offered: deque[int] = deque()
        own_places = places(
            self._store,
            judge,
            lambda step: offered.extend(step.runs),
            lambda: (WORKERS,),
            lambda step: {"": len(offered)},
        )
        act = self._patient(own_places)
        scene = Scene(jobs, span.begin_s - 1, self._clock, act, Mishaps(mishaps), self._say)
        self._workers = RehearsedWorkers(WORKERS, scene, offered)
        self._turns = rotating([RehearsedNode(name, scene) for name in nodes])

    def play(self, progress: Callable[[float], None], stop: threading.Event) -> bool:
        """To its end: ``True``; ``False`` when it was stopped. ``progress`` hears which share of the span is over.

        Raises ``Conflict`` while another play goes on, and ``Unavailable``. One that did not come to its end may be
        played again from its begin: slots that have a row keep it.
        """
        self._stop = stop
        lease = store.lease(LEASE)
        self._take(lease)
        try:
            self._free()
            while not stop.is_set():
                with asked(), transaction.atomic():
                    self._instant()
                    while self._open(RunState.CLAIMED):
                        self._refuse_stuck()
                        self._advance(SWEEP_S)
                        self._instant()
                self._keep(lease)
                progress(min(1.0, (self._now_s() - self._span.begin_s) / (self._span.end_s - self._span.begin_s)))
                pause_s = self._pause_s()
                if pause_s is None:
                    return True
                self._advance(pause_s)
        except Unavailable:
            if not stop.is_set():
                raise
        finally:
            with suppress(Unavailable):
                lease.release()
        return False

    def _instant(self) -> None:
        """All that anybody does now. Nodes take turns in who is first, as it befits those of whom none leads."""
        nodes = next(self._turns)
        for node in nodes:
            node.tick()
        self._workers.work()
        if nodes:
            nodes[0].sweep()
        self._workers.work()
        if self._away:
            raise self._away

    def _refuse_stuck(self) -> None:
        before_us = round((self._now_s() - STUCK_S) * 1_000_000)
        stuck = JobRun.objects.filter(
            pk__in=self._open(RunState.CLAIMED), changed_us__lt=before_us, not_before_us__lt=before_us
        ).first()
        if stuck:
            raise Unavailable(f"Run {stuck.pk} of {stuck.job!r} is offered, and nobody begins it.")

    def _pause_s(self) -> float | None:
        """Until the next instant at which anything is to be done; ``None`` after the last."""
        now_s = self._now_s()
        coming = [slot for slot in map(self._next_slot, JobCursor.objects.filter(job__in=self._jobs)) if slot]
        # One that has come waits for a marker to run out: its node was killed.
        pauses = [slot - now_s if slot > now_s else LOOK_AGAIN_S for slot in coming]
        if set(self._open(RunState.RUNNING)) - self._workers.runs:
            pauses.append(SWEEP_S)
        pause_s = min([self._workers.next_s(), *pauses])
        return None if pause_s == math.inf else pause_s

    def _next_slot(self, cursor: JobCursor) -> int | None:
        return self._jobs[cursor.job].slots.next_after(cursor.at)

    def _open(self, state: RunState) -> list[int]:
        """The runs of the play in that state, but for those that wait for another."""
        rows = JobRun.objects.filter(job__in=self._jobs, ended_us=None, state=state, waits=False)
        return list(rows.values_list("pk", flat=True))

    def _free(self) -> None:
        """Of a play that died its leases: nobody renews them."""
        for run, lease in self._store.leases(self._open(RunState.RUNNING)).items():
            self._store.take_away(run, lease.epoch)

    def _advance(self, seconds: float) -> None:
        """The clock passes, and leases are renewed in time."""
        left_ms = _whole_ms(seconds)
        while left_ms > 0:
            step_ms = min(left_ms, _whole_ms(min(seconds, self._workers.renew())))
            self._clock.advance(step_ms / 1000)
            left_ms -= step_ms

    def _now_s(self) -> float:
        return self._clock.now_ms() / 1000

    def _say(self, says: str) -> None:
        self.happened.append(Happened(self._now_s(), says))

    def _patient(self, act: Act) -> Act:
        def ask(step: Step) -> Any:
            return self._patiently(lambda: act(step)) if isinstance(step, _OF_THE_STORE) else act(step)

        return ask

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        clock = SystemClock()
        until = clock.monotonic() + PATIENCE_S
        while True:
            try:
                return ask()
            except Unavailable as error:
                if self._away or clock.monotonic() > until or clock.wait(self._stop, LOOK_S):
                    self._away = error
                    raise

    def _take(self, lease: Ownership) -> None:
        clock = SystemClock()
        until = clock.monotonic() + 2 * lease.ttl_s
        while not self._patiently(lease.acquire):
            if clock.monotonic() > until or clock.wait(self._stop, LOOK_S):
                raise Conflict("Jobs are being rehearsed already.", remedy="Wait until that is over.", field="jobs")

    def _keep(self, lease: Ownership) -> None:
        if not self._patiently(lease.renew):
            self._take(lease)


def _whole_ms(seconds: float) -> int:
    """Up: nothing that is due is missed by what a float leaves out."""
    return max(1, math.ceil(round(seconds * 1000, 3)))


class _OwnJudge(SlotJudge):
    """The others' runs are none of the play's: they live by another clock."""

    def __init__(self, now_s: Callable[[], float], jobs: frozenset[str]) -> None:
        super().__init__(now_s)
        self._jobs = jobs

    def read_open(self, step: ReadOpen) -> tuple[list[RunRow], float]:
        rows, now_s = super().read_open(step)
        return [row for row in rows if row.job in self._jobs], now_s
