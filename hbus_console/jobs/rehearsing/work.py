"""The work of a run in a rehearsal: done at once by its kind; what it waits for is added up, and passes afterwards."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.clock import Clock
from engine.cron.slots.running import Held
from engine.cron.slots.steps import RunState
from engine.cron.slots.worker import Ended
from engine.cron.work.call import RunCall, RunContext, WorkOutcome
from engine.cron.work.log_spool import LogSpool
from hbus_console.access.permissions import Forbidden
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.rehearsing.mishaps import Killed
from hbus_console.jobs.rights import actor_named
from hbus_console.jobs.working.process import RunWork, work_of
from hbus_console.jobs.working.shipping import LogShipper, spool_folder


class RehearsedContext(RunContext):
    """Time passes in it by what the work waits for. ``dies``: its process is killed when the work first waits."""

    def __init__(self, call: RunCall, log: LogSpool, timeout_s: float, *, dies: bool) -> None:
        super().__init__(call, log, timeout_s)
        self.passed_s = 0.0
        self._dies = dies

    def wait(self, seconds: float) -> None:
        self.is_stopped(seconds)
        self.raise_if_stopped()

    def is_stopped(self, within_s: float = 0.0) -> bool:
        if self.timeout_s and self.passed_s + within_s > self.timeout_s:
            within_s = self.timeout_s - self.passed_s
            self.stop(f"it took longer than {self.timeout_s:,.0f} s")
        self.passed_s += within_s
        if self._dies and within_s:
            raise Killed
        return super().is_stopped()


@dataclass(frozen=True, slots=True)
class DoneWork:
    """What came of it, after so many seconds; ``None``: its process was killed."""

    ended: Ended | None
    after_s: float


def do(held: Held, clock: Clock, *, dies: bool) -> DoneWork:
    """Do the work of a run that was begun, and keep its log and its summary."""
    work = work_of(held)
    if work is None:
        return DoneWork(Ended(RunState.FAILED, "the job was deleted before it began", again=False), 0.0)
    spool = LogSpool(spool_folder(), held.row.id, held.row.attempt)
    context = RehearsedContext(work.call, spool, work.spec.timeout_s, dies=dies)
    try:
        outcome = _outcome(work, context)
    except Killed:
        return DoneWork(None, context.passed_s)
    finally:
        LogShipper(spool, clock).finish()
    if outcome.summary:
        JobRun.objects.filter(pk=held.row.id, epoch=held.epoch, state=RunState.RUNNING).update(summary=outcome.summary)
    state = RunState.DONE if outcome.done else RunState.FAILED
    return DoneWork(Ended(state, outcome.reason, outcome.again), context.passed_s)


def _outcome(work: RunWork, context: RehearsedContext) -> WorkOutcome:
    try:
        outcome = work.kind.run(actor_named(work.acts_as), work.spec, context)
    except Forbidden as error:
        outcome = WorkOutcome(False, error.what, again=False)
    if context.why_stopped:
        outcome = WorkOutcome(False, context.why_stopped)
    if not outcome.done:
        # The row tells of the last attempt alone.
        context.log.write(f"hbus: attempt {context.call.attempt}: {outcome.reason}\n")
    return outcome
