"""The leases of runs, as people see them and take them away."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction

from engine.core.errors import BadInput
from engine.cron.slots.steps import RunState
from engine.cron.slots.store import SlotStore
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.services import record
from hbus_console.jobs.feature import JOB_RELEASE
from hbus_console.jobs.kinds.names import WorkName
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.services.triggering import run_of
from hbus_console.wiring import store


def slot_store() -> SlotStore:
    """The store's part of the protocol, in this process."""
    return SlotStore(store.client(), settings.HBUS_PREFIX)


def release_lease(actor: Actor, job: str, run_id: int, reason: str) -> JobRun:
    """Take the lease of a run from its worker, for one that is stuck: if it lives it stops, and the run is lost.

    Whether it is tried again is the job's ``after_loss``. Raises :class:`BadInput` for a run that does not run, and
    ``Unavailable``: nothing is known to have changed then but the audit entry.
    """
    require(actor, JOB_RELEASE, job)
    reason = checks.reason(reason)
    run = run_of(job, run_id)
    if Job.objects.filter(name=job, kind=WorkName.ELSEWHERE).exists():
        raise BadInput(
            f"{job} runs elsewhere: nobody has a lease of its runs.", remedy="Cancel the run instead.", field="job"
        )
    if run.state != RunState.RUNNING:
        raise BadInput(
            f"Run {run_id} of {job} is {run.state}: nobody has a lease of it.",
            remedy="Look at the runs that run.",
            field="run",
        )
    # Before it is done: nobody is to stop a run without a trace.
    with transaction.atomic():
        record(actor, "job.release", run.subject, reason=reason, before={"owner": run.owner, "epoch": run.epoch})
    slot_store().take_away(run.pk)
    return run
