"""A node or a worker of the slot protocol, until it is told to stop (SIGTERM) or killed. Run by ``test_cron``.

Arguments: ``node`` or ``worker``, its name, and how many seconds its clock is ahead. STATE, REDIS_URL and HBUS_PREFIX
come in the environment; ``DIE_AT``, such as ``OpenRuns:after``, says at which step, and before or after it, the process
is to kill itself.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.cron.slots.driving import Act
    from engine.cron.slots.steps import Step

#: Runs that a worker process does at a time.
THREADS = 8
#: Longer than a starved machine holds a live process up, and shorter than a stop of the test.
LEASE_S = 4
#: What a run takes beside its effect.
WORK_S = 0.01
#: Jobs whose work heeds nothing, and goes on until its lease is lost, that is known, and another has begun it: a lease
#: until it runs out, one in which it is missing, and twice the pause between two looks.
SLOW, SLOW_S = "slow", 3.5 * LEASE_S
#: No store that does not answer holds up the renewals of leases for longer.
STORE_S = LEASE_S / 4


def live_in_a_time_of_its_own(skew_s: float) -> None:
    """Before anything reads a clock."""
    true_time = time.time
    time.time = lambda: true_time() + skew_s


def doomed(act: Act, place: str) -> Act:
    """Dies at its first step of that kind."""
    if not place:
        return act
    kind, _, when = place.partition(":")

    def act_once(step: Step) -> Any:
        if type(step).__name__ != kind:
            return act(step)
        if when == "after":
            act(step)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nobody outlives that")

    return act_once


def main(kind: str, name: str) -> None:
    import django

    django.setup()

    from django.conf import settings
    from django.db import connection

    from engine.core.errors import Unavailable
    from engine.core.store import open_client
    from engine.core.store.answered import answered
    from engine.cron.slots.job import JobPolicy
    from engine.cron.slots.keeping import LeaseKeeper
    from engine.cron.slots.node import AHEAD_S, CronNode
    from engine.cron.slots.running import Held
    from engine.cron.slots.steps import Offer, RunState
    from engine.cron.slots.store import SlotStore
    from engine.cron.slots.worker import Ended, RunWorker
    from hbus_console.database import fresh_connections, keep_connections
    from hbus_console.jobs.judge import SlotJudge
    from hbus_console.jobs.known import KnownJobs, policy_of
    from hbus_console.jobs.models import Job
    from hbus_console.jobs.places import places

    keep_connections()
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    client = open_client(settings.REDIS_URL, answer_timeout_s=STORE_S, connect_timeout_s=STORE_S)
    store = SlotStore(client, settings.HBUS_PREFIX)
    queue = f"{settings.HBUS_PREFIX}:queue"

    def offer(step: Offer) -> None:
        with answered():
            client.rpush(queue, *step.runs)

    act = doomed(places(store, SlotJudge(), offer, tuple), os.environ.get("DIE_AT", ""))

    def node() -> None:
        one = CronNode(name, act, KnownJobs().changes, store.time, ahead_s=AHEAD_S)
        sweeper = threading.Thread(target=again, args=(one.sweep,))
        sweeper.start()
        again(one.tick)
        sweeper.join()

    def again(work: Callable[[], float]) -> None:
        while not told.is_set():
            with fresh_connections():
                pause_s = work()
            told.wait(pause_s)

    def work(held: Held, lost: threading.Event) -> Ended:
        if held.row.job.startswith(SLOW):
            time.sleep(SLOW_S)
        else:
            lost.wait(float(os.environ.get("WORK_S", WORK_S)))
        with connection.cursor() as cursor:
            # Fenced: nothing is done for who has lost the run.
            cursor.execute(
                "INSERT INTO chaos_effect SELECT id, job, slot, epoch, owner FROM jobs_jobrun"
                " WHERE id = %s AND state = %s AND epoch = %s",
                [held.row.id, RunState.RUNNING.value, held.epoch],
            )
            done = cursor.rowcount == 1
            if not done:
                refused = [held.row.id, held.row.job, held.row.slot, held.epoch, held.owner]
                cursor.execute("INSERT INTO chaos_refused VALUES (%s, %s, %s, %s, %s)", refused)
        return Ended(RunState.DONE) if done else Ended(RunState.FAILED, "its effect was refused")

    def worker() -> None:
        keeper = LeaseKeeper(act)
        keeper.start()
        policies: dict[str, JobPolicy] = {job.name: policy_of(job) for job in Job.objects.all()}
        one = RunWorker(name, act, keeper, policies.__getitem__)
        threads = [threading.Thread(target=take, args=(one,)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        keeper.stop()

    def take(one: RunWorker) -> None:
        while not told.is_set():
            try:
                with answered():
                    taken = client.blpop([queue], timeout=STORE_S / 2)
                if taken is not None:
                    with fresh_connections():
                        one.run(int(taken[1]), work)
            except Unavailable:
                told.wait(0.2)

    print("started", flush=True)
    (node if kind == "node" else worker)()


if __name__ == "__main__":
    live_in_a_time_of_its_own(float(sys.argv[3]))
    main(*sys.argv[1:3])
