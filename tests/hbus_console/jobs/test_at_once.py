"""Many workers begin and end runs of one job at the same time: as many run as may, and none is left behind."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from itertools import count
from typing import TypeVar

import pytest
from django.db import connection

from engine.core.errors import Unavailable
from engine.cron.slots.job import JobPolicy, Overlap
from engine.cron.slots.planning import Decision
from engine.cron.slots.steps import Begin, Beginning, Cursor, End, Opening, OpenRuns, RunState
from hbus_console.jobs.judge import SlotJudge, asked
from hbus_console.jobs.models import JobCursor, JobRun

pytestmark = pytest.mark.django_db(transaction=True)
Asked, Answered = TypeVar("Asked"), TypeVar("Answered")
RUNS, WORKERS = 20, 6


class Crowd:
    """Workers that take runs from one queue, and offer those that the database names at the end of another."""

    def __init__(self, policy: JobPolicy, runs: list[int]) -> None:
        self._policy, self._judge = policy, SlotJudge()
        self._queue, self._epochs = deque(runs), count(1)
        #: How many ran whenever a worker looked, and how often the database refused to be asked.
        self.running: list[int] = []
        self.refused = 0
        self.errors: list[Exception] = []

    def work(self) -> None:
        try:
            while self._queue:
                self._take()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.errors.append(error)
        finally:
            connection.close()

    def _take(self) -> None:
        try:
            run, epoch = self._queue.popleft(), next(self._epochs)
        except IndexError:
            return
        if self._asked(self._judge.begin, Begin(run, epoch, "w", self._policy)) is not Beginning.BEGUN:
            return
        self.running.append(self._asked(_count_running, None))
        ending = self._asked(self._judge.end, End(run, epoch, RunState.FAILED, self._policy, "told to stop"))
        self._queue.extend(ending.next)

    def _asked(self, act: Callable[[Asked], Answered], what: Asked) -> Answered:
        while True:
            try:
                return act(what)
            except Unavailable:
                self.refused += 1
                # Whoever holds the lock needs the processor that asking again at once would take.
                time.sleep(random.uniform(0.001, 0.01))


def _count_running(_: None) -> int:
    with asked():
        return JobRun.objects.filter(state=RunState.RUNNING).count()


@pytest.mark.parametrize(
    ("policy", "most", "states"),
    [
        (JobPolicy(overlap=Overlap.SKIP), 1, {"failed", "skipped"}),
        (JobPolicy(overlap=Overlap.QUEUE), 1, {"failed", "skipped"}),
        (JobPolicy(overlap=Overlap.CANCEL), 1, {"failed", "skipped", "cancelled"}),
        (JobPolicy(most_at_once=2), 2, {"failed"}),
    ],
)
def test_no_more_run_than_may_and_who_waits_is_offered(policy: JobPolicy, most: int, states: set[str]) -> None:
    JobCursor.objects.create(job="close", version=1, at=0)
    opening = Opening(Cursor("close", 1, 0), tuple(Decision(slot) for slot in range(1, RUNS + 1)))
    crowd = Crowd(policy, [row.id for row in SlotJudge().open_runs(OpenRuns((opening,), "n1")).rows])
    threads = [threading.Thread(target=crowd.work) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert crowd.errors == []
    # The SQLite of the tests, which lies in memory, does not wait for whoever writes. Nobody may wait for each other.
    assert connection.vendor != "postgresql" or crowd.refused == 0
    assert max(crowd.running) <= most
    told = Counter(JobRun.objects.values_list("state", flat=True))
    assert told.keys() <= states, told
    assert told["failed"] + told["cancelled"] > 0
