"""A process that does runs, one at a time: what it holds, and what a run is between its beginning and its end."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from functools import cache
from typing import NamedTuple

import structlog
from django.conf import settings

from engine.core.clock import Clock, SystemClock
from engine.core.errors import Unavailable
from engine.core.store import open_client
from engine.cron.facts import begun_fact, ended_fact
from engine.cron.slots import running
from engine.cron.slots.driving import perform
from engine.cron.slots.job import JobPolicy
from engine.cron.slots.keeping import LeaseKeeper
from engine.cron.slots.running import Held
from engine.cron.slots.steps import RunState
from engine.cron.slots.store import SlotStore
from engine.cron.slots.worker import Ended, RunWorker
from engine.cron.work.call import RunCall, RunContext, WorkOutcome
from engine.cron.work.log_spool import LogSpool
from hbus_console.access.permissions import Forbidden, require
from hbus_console.database import AWAY, fresh_connections, keep_connections
from hbus_console.jobs.feature import JOB_EDIT
from hbus_console.jobs.judge import SlotJudge
from hbus_console.jobs.kinds.kind import WorkKind, WorkSpec
from hbus_console.jobs.kinds.known import KINDS
from hbus_console.jobs.known import policy_of
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.places import places
from hbus_console.jobs.queue import offer
from hbus_console.jobs.rights import actor_named
from hbus_console.jobs.services.work import spec_of
from hbus_console.jobs.workers import working_nodes
from hbus_console.jobs.working.shipping import LogShipper, spool_folder
from hbus_console.wiring import fact_log, store

#: The store must answer sooner than leases run out, in seconds.
STORE_TIMEOUT_S = 2.0
#: How long work may take to end once it is asked to, in seconds; then its process is ended.
HEEDS_WITHIN_S = 10.0
#: How soon the loss of a lease, and the end of a run's time, are seen.
_LOOK_S = 0.1

_log = structlog.get_logger(__name__)


class RunWork(NamedTuple):
    """What one run is to do."""

    kind: WorkKind
    spec: WorkSpec
    acts_as: str
    call: RunCall


class RunProcess:
    """Made after the fork, once a process. One run at a time: what a run prints is known by its process."""

    def __init__(self, clock: Clock | None = None) -> None:
        keep_connections()
        self._clock = clock or SystemClock()
        self._client = open_client(store.url(), answer_timeout_s=STORE_TIMEOUT_S, connect_timeout_s=STORE_TIMEOUT_S)
        self._act = act = places(
            SlotStore(self._client, settings.HBUS_PREFIX),
            SlotJudge(),
            offer,
            lambda: working_nodes(self._client, settings.HBUS_PREFIX),
        )
        self._keeper = LeaseKeeper(act)
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
            try:
                state = self._worker.run(run, self._work)
            except Unavailable as error:
                _log.warning("a run could not be begun", run=run, error=error.what)
                return None
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
        row = held.row
        # What is to begin later than its slot is not late until then.
        due_s = max(row.slot, row.not_before_s) if row.attempt == 1 else row.slot
        late_us = self._clock.now_ms() * 1_000 - round(due_s * 1_000_000)
        self._facts.emit([begun_fact(held.row.job, self._clock, self._name, late_us)])
        spool = LogSpool(spool_folder(), held.row.id, held.row.attempt)
        shipper = LogShipper(spool).start()
        try:
            outcome = self._outcome(held, stop, spool)
            if not outcome.done:
                # The row tells of the last attempt alone.
                spool.write(f"hbus: attempt {held.row.attempt}: {outcome.reason}\n")
        finally:
            shipper.finish()
        if outcome.summary:
            JobRun.objects.filter(pk=held.row.id, epoch=held.epoch, state=RunState.RUNNING).update(
                summary=outcome.summary
            )
        return Ended(RunState.DONE if outcome.done else RunState.FAILED, outcome.reason, outcome.again)

    def _outcome(self, held: Held, stop: threading.Event, spool: LogSpool) -> WorkOutcome:
        work = work_of(held)
        if work is None:
            return WorkOutcome(False, "the job was deleted before it began", again=False)
        context = RunContext(work.call, spool, work.spec.timeout_s)
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=(held, context, stop, ended), name="run-watch", daemon=True)
        watch.start()
        try:
            acting = actor_named(work.acts_as)
            # Whatever it does besides: who may not say any more what the job does, has it do nothing.
            require(acting, JOB_EDIT, held.row.job)
            outcome = work.kind.run(acting, work.spec, context)
        except Forbidden as error:
            outcome = WorkOutcome(False, error.what, again=False)
        finally:
            ended.set()
            watch.join()
        # What it says it did, it did after its time, and perhaps beside another.
        return WorkOutcome(False, context.why_stopped) if context.why_stopped else outcome

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


def work_of(held: Held) -> RunWork | None:
    """As the version says under which the slot was decided, and the parameters of who triggered it."""
    run = JobRun.objects.get(pk=held.row.id)
    job = Job.objects.filter(name=run.job).first()
    if job is None:
        return None
    version = job.versions.get(number=run.version)
    said = version.settings
    call = RunCall(
        run.pk,
        run.job,
        held.row.attempt,
        run.slot,
        held.epoch,
        run.correlation_id,
        said["parameters"] if run.parameters is None else run.parameters,
        run.part,
    )
    return RunWork(KINDS[said["kind"]], spec_of(said, job.secret), said["acts_as"], call)
