"""One node that decides the slots of many jobs, on a database and a store of its own.

What it offers goes to the workers' queue, and is ended between two seconds by a single statement, in their place.
"""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue
from statistics import quantiles

import psutil

from engine.core.store import open_client
from engine.cron.slots.node import AHEAD_S as DECIDED_AHEAD_S
from engine.cron.slots.node import CronNode
from engine.cron.slots.steps import Offer
from engine.cron.slots.store import SlotStore
from hbus_console.database import keep_connections, put_off_write_back, write_back
from hbus_console.jobs.judge import SlotJudge
from hbus_console.jobs.known import KnownJobs
from hbus_console.jobs.models import Job, JobCursor, JobRun, JobVersion
from hbus_console.jobs.places import places
from hbus_console.jobs.queue import offer
from hbus_console.jobs.scheduling.role import keep_what_is_known
from hbus_console.teams.models import Team

#: Slots come so long after the jobs are there, and a second later for so many of them: until then the node knows them.
AHEAD_S, READY_PER_S = 4, 4_000
#: In each second, once what comes with it has been offered: where it was decided before, and where it is then.
WORK_AT_S, WORK_LATE_AT_S = 0.15, 0.6
_CHUNK = 5_000


class MeasuredNode:
    """Decides what comes until all has come; :attr:`figures` say how late, and how much memory a job takes."""

    def __init__(self, url: str, schedules: int, seconds: int) -> None:
        keep_connections()
        put_off_write_back()
        self._seconds = seconds
        self._schedules = schedules
        self._late: list[float] = []
        self._offered: SimpleQueue[tuple[float, tuple[int, ...]]] = SimpleQueue()
        self.figures: dict[str, float] = {}
        store = SlotStore(open_client(url), "bench")
        _make_jobs(schedules)
        #: When the first slots come.
        self._begin = int(time.time()) + AHEAD_S + schedules // READY_PER_S
        _make_schedules(self._begin, seconds)
        before = psutil.Process().memory_info().rss
        act = places(store, SlotJudge(), self._offer, tuple, lambda step: {})
        # Where all come in the same second it is measured what their work takes, and none of it is to be done before.
        ahead_s = DECIDED_AHEAD_S if seconds else 0.0
        self._node = CronNode("bench", act, KnownJobs().changes, store.time, ahead_s=ahead_s)
        self._node.tick()
        keep_what_is_known()
        self.figures["bytes"] = (psutil.Process().memory_info().rss - before) / schedules
        if time.time() > self._begin - 1:
            raise RuntimeError("the first slots came before all was set up: this machine is too busy to measure on")

    def run(self) -> None:
        stopped = threading.Event()
        sweeper = threading.Thread(target=self._sweep, args=(stopped,), daemon=True)
        sweeper.start()
        worker = threading.Thread(target=self._work, args=(stopped,), daemon=True)
        worker.start()
        end = self._begin + max(self._seconds, 1) + 1
        while time.time() < end and len(self._late) < self._expected():
            time.sleep(self._node.tick())
        stopped.set()
        sweeper.join()
        worker.join()
        late = sorted(self._late)
        cuts = quantiles(late, n=100, method="inclusive")
        self.figures |= {"p50": cuts[49], "p99": cuts[98], "most": late[-1], "count": len(late)}

    def _expected(self) -> int:
        return self._schedules * self._seconds // 60 if self._seconds else self._schedules

    def _sweep(self, stopped: threading.Event) -> None:
        while not stopped.wait(self._node.sweep()):
            write_back()

    def _offer(self, step: Offer) -> None:
        offer(step)
        self._offered.put((time.time(), step.runs))

    def _work(self, stopped: threading.Event) -> None:
        ending = False
        while not ending:
            at_s = WORK_AT_S if self._seconds else WORK_LATE_AT_S
            ending = stopped.wait(at_s + 1 - time.time() % 1)
            while not self._offered.empty():
                at, runs = self._offered.get()
                rows = JobRun.objects.filter(pk__in=runs)
                self._late += [(at - slot) * 1000 for slot in rows.values_list("slot", flat=True)]
                rows.update(state="done", ended_us=1)


def _make_jobs(schedules: int) -> None:
    team = Team.objects.create(name="bench", contact="bench")
    for start in range(0, schedules, _CHUNK):
        numbers = range(start, min(start + _CHUNK, schedules))
        jobs = Job.objects.bulk_create(
            Job(name=f"job{number}", team=team, schedule=f"{number % 60} * * * * *") for number in numbers
        )
        JobVersion.objects.bulk_create(JobVersion(job=job, number=1, settings={}, audit_seq=1) for job in jobs)


def _make_schedules(begin: int, seconds: int) -> None:
    if not seconds:
        Job.objects.update(schedule=f"{begin % 60} * * * * *")
    names = Job.objects.values_list("name", flat=True)
    cursors = (JobCursor(job=name, version=1, at=begin - 1) for name in names)
    JobCursor.objects.bulk_create(cursors, batch_size=_CHUNK)
