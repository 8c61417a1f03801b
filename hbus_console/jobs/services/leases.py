"""The leases of runs, as people see them and take them away."""

from __future__ import annotations

from engine.core.errors import BadInput, Conflict
from engine.cron.slots.steps import RunState
from engine.cron.slots.store import TakenAway
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.decisions import StoreDecision, carry_out, found_done, last_decision, unanswered
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.tries import EarlierTry, decided_since, has_decided, own_try
from hbus_console.jobs.feature import JOB_RELEASE
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.services.triggering import run_of
from hbus_console.wiring.cron import slot_store


def release_lease(actor: Actor, job: str, run_id: int, reason: str) -> JobRun:
    """Take the lease of a run from its worker, for one that is stuck: if it lives it stops, and the run is lost.

    Whether it is tried again is the job's ``after_loss``. Raises :class:`BadInput` for a run that does not run,
    ``Unavailable`` where nothing has changed, and ``OutcomeUnknown`` where nobody knows: whoever asks for the same
    again has it found out. Raises :class:`Conflict` where a request is repeated that may have been done, and somebody
    has decided about the same lease since.
    """
    require(actor, JOB_RELEASE, job)
    reason = checks.reason(reason)
    run = run_of(job, run_id)
    if Job.objects.elsewhere().filter(name=job).exists():
        raise BadInput(
            f"{job} runs elsewhere: nobody has a lease of its runs.", remedy="Cancel the run instead.", field="job"
        )
    tried = own_try(run.subject, actor, JOB_RELEASE.name)
    if tried is not None and _found_by_repeat(actor, run, tried):
        return run
    lost = unanswered(last_decision(run.subject, [JOB_RELEASE.name]), actor, JOB_RELEASE.name)
    if lost and (run.state == RunState.LOST or _is_tried_again(run, lost)):
        found_done(actor, lost, run.subject)
        return run
    if run.state != RunState.RUNNING:
        raise BadInput(
            f"Run {run_id} of {job} is {run.state}: nobody has a lease of it.",
            remedy="Look at the runs that run.",
            field="run",
        )
    before = {"owner": run.owner, "epoch": run.epoch}
    carry_out(StoreDecision(actor, JOB_RELEASE.name, run.subject, reason, before), lambda: _take_away(job, run))
    return run


def _take_away(job: str, run: JobRun) -> None:
    """That its worker has let go of it by itself does no harm: the run is lost all the same."""
    if slot_store().take_away(run.pk, run.epoch) is TakenAway.ANOTHERS:
        raise Conflict(
            f"Run {run.pk} of {job} has another lease than the one you saw: nothing was taken.",
            remedy="Look at how the run stands. To take that one is another decision.",
            field="run",
        )


def _found_by_repeat(actor: Actor, run: JobRun, tried: EarlierTry) -> bool:
    """Whether the first try of this request took the lease that it was about, and that alone."""
    if tried.done:
        return True
    epoch = tried.before.get("epoch")
    if since := decided_since(tried, [JOB_RELEASE.name], lambda entry: (entry.before or {}).get("epoch") == epoch):
        raise Conflict(
            f"Nobody knows whether it was done, and {has_decided(since, 'the same lease', 'taken away')}.",
            remedy="Look at how the run stands. To take a lease from it is another decision: under another key.",
            field="run",
        )
    if run.state == RunState.LOST or run.epoch != epoch:
        found_done(actor, tried.decision, run.subject)
        return True
    return False


def _is_tried_again(run: JobRun, lost: AuditEntry) -> bool:
    """Whether it has a lease by now that nobody has decided about."""
    return run.state == RunState.RUNNING and run.epoch != (lost.before or {}).get("epoch")
