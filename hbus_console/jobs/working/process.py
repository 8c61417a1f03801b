"""A process that does runs, one at a time: what it holds, and who ends a run that does not end by itself."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

import structlog

from engine.core.clock import Clock, SystemClock
from engine.core.errors import Unavailable
from engine.cron.facts import begun_fact, ended_fact
from engine.cron.slots import running
from engine.cron.slots.driving import perform
from engine.cron.slots.job import JobPolicy
from engine.cron.slots.keeping import LeaseKeeper
from engine.cron.slots.running import Held
from engine.cron.slots.steps import RunState
from engine.cron.slots.worker import Ended, RunWorker
from engine.cron.work.call import RunContext
from engine.cron.work.dead_man import dead_man
from engine.cron.work.log_spool import LogSpool
from hbus_console.database import AWAY, fresh_connections, keep_connections
from hbus_console.jobs.known import policy_of
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.places import own_places
from hbus_console.jobs.working.limits import start_of
from hbus_console.jobs.working.shipping import LogShipper, spool_folder
from hbus_console.jobs.working.work import RunWork, do_work
from hbus_console.wiring import fact_log, store
from hbus_console.wiring.cron import hasty_client

#: How long work may take to end once it is asked to, in seconds; then its process is ended.
HEEDS_WITHIN_S = 10.0
#: How soon the loss of a lease, and the end of a run's time, are seen.
_LOOK_S = 0.1

_log = structlog.get_logger(__name__)


class RunProcess:
    """Made after the fork, once a process. One run at a time: what a run prints is known by its process."""

    def __init__(self, clock: Clock | None = None) -> None:
        keep_connections()
        self._clock = clock or SystemClock()
        self._client = hasty_client()
        self._act = act = own_places(self._client)
        self._keeper = LeaseKeeper(dead_man().keeping(act))
        self._keeper.start()
        self._name = f"{store.node_name()}:{os.getpid()}"
        self._worker = RunWorker(self._name, act, self._keeper, _policy)
        self._facts = fact_log.emitter()
        #: What was begun, and when, by the monotonic clock.
        self._held: Held | None = None
        self._began = 0.0

    def close(self) -> None:
        """Keep no lease any more."""
        self._keeper.stop()
        self._client.close()

    def run(self, run: int) -> RunState | None:
        """How it ended; ``None`` when it was not begun here."""
        with fresh_connections():
            give_back = start_of(run, self._clock.now_ms() * 1_000)
            if give_back is None:
                return None
            try:
                state = self._worker.run(run, self._work)
            except Unavailable as error:
                _log.warning("a run could not be begun", run=run, error=error.what)
                state = None
            if self._held is None:
                give_back(1)
            self._tell_end(state)
            return state

    def _tell_end(self, state: RunState | None) -> None:
        held, self._held = self._held, None
        if held is None or state is None:
            return
        took_us = round((self._clock.monotonic() - self._began) * 1_000_000)
        ended = ended_fact(held.row.job, state, self._clock, self._name, took_us)
        self._facts.emit([ended] if ended else [])

    def _work(self, held: Held, stop: threading.Event) -> Ended:
        self._held, self._began = held, self._clock.monotonic()
        late_us = self._clock.now_ms() * 1_000 - round(held.row.due_s * 1_000_000)
        # A further attempt is not late: it waited for the one before.
        late = late_us if held.row.attempt == 1 else None
        self._facts.emit([begun_fact(held.row.job, self._clock, self._name, late)])
        spool = LogSpool(spool_folder(), held.row.id, held.row.attempt)
        shipper = LogShipper(spool).start()
        try:
            return do_work(held, spool, lambda work: self._watched(held, work, spool, stop))
        finally:
            shipper.finish()

    @contextmanager
    def _watched(self, held: Held, work: RunWork, spool: LogSpool, stop: threading.Event) -> Iterator[RunContext]:
        """Has the work stop when it is to, or its time is over."""
        context, ended = RunContext(work.call, spool, work.spec.timeout_s), threading.Event()
        watch = threading.Thread(target=self._watch, args=(held, context, stop, ended), name="run-watch", daemon=True)
        watch.start()
        # The watch is a thread, which work that holds the interpreter stops too.
        dead_man().hold(held, context, HEEDS_WITHIN_S)
        try:
            yield context
        finally:
            dead_man().let_go()
            ended.set()
            watch.join()

    def _watch(self, held: Held, context: RunContext, stop: threading.Event, ended: threading.Event) -> None:
        timeout_s, began = context.timeout_s, self._clock.monotonic()
        while not self._clock.wait(ended, _LOOK_S):
            if stop.is_set():
                context.stop(_why_stopped(held))
            elif timeout_s and self._clock.monotonic() - began > timeout_s:
                context.stop(f"it took longer than {timeout_s:,.0f} s")
            if context.why_stopped:
                break
        if context.why_stopped and not self._clock.wait(ended, HEEDS_WITHIN_S):
            self._end_this_process(held, context)

    def _end_this_process(self, held: Held, context: RunContext) -> None:
        """Nothing else ends a function that does not listen."""
        reason = f"{context.why_stopped}; it did not stop within {HEEDS_WITHIN_S:g} s, and its process was ended"
        context.log.write(f"hbus: {reason}\n")
        _log.error("a run did not stop when asked; its process ends", run=held.row.id, job=held.row.job)
        # Where it is not told, the sweeper finds that nobody renews the lease.
        with suppress(Unavailable):
            perform(running.end(held, RunState.FAILED, reason), self._act, self._clock)
        os._exit(1)


def _why_stopped(held: Held) -> str:
    with fresh_connections():
        try:
            asked = (
                JobRun.objects.filter(pk=held.row.id).exclude(cancel_us=None).values_list("cancel_reason", flat=True)
            )
            return next(iter(asked), "") or "its lease was lost while it ran"
        except AWAY:
            return "it was told to stop"


@cache
def run_process() -> RunProcess:
    """That of this process, which from now on dies of SIGTERM."""
    signal.signal(signal.SIGTERM, _die)
    return RunProcess()


def _die(number: int, _: object) -> None:
    # The pool's own way is to raise SystemExit in what runs, which takes it for its own end and is judged by it. Who
    # ends a process from outside says nothing about its run: it is lost, and what follows that is the job's to say.
    os._exit(128 + number)


def _policy(job: str) -> JobPolicy:
    """Of a job that is gone the usual one."""
    row = Job.objects.filter(name=job).first()
    return JobPolicy() if row is None else policy_of(row)
