"""What a run does: read from the version that it was decided under, done by the rights of this moment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

import structlog
from django.db import Error as DatabaseRefusal

from engine.core.error_text import shortened, words_of
from engine.core.secret_values import NO_SECRETS, SecretValues
from engine.cron.slots.running import Held
from engine.cron.slots.steps import RunState
from engine.cron.slots.worker import Ended
from engine.cron.work.call import SUMMARY_LIMIT, RunCall, RunContext, WorkOutcome
from engine.cron.work.log_spool import LogSpool
from hbus_console.access.permissions import Forbidden, require
from hbus_console.database import is_away
from hbus_console.jobs.feature import JOB_EDIT
from hbus_console.jobs.kinds.kind import WorkKind, WorkSpec
from hbus_console.jobs.kinds.known import KINDS
from hbus_console.jobs.models import JobRun, JobVersion
from hbus_console.jobs.rights import actor_named
from hbus_console.jobs.services.run_secrets import secrets_given
from hbus_console.jobs.services.work import spec_of

_log = structlog.get_logger(__name__)


class RunWork(NamedTuple):
    """What one run is to do."""

    kind: WorkKind
    spec: WorkSpec
    acts_as: str
    call: RunCall
    #: What of its parameters and options nobody is shown.
    secrets: SecretValues


#: Gives the work what it holds in its hands, and looks after it as long as it goes on.
Within = Callable[[RunWork], AbstractContextManager[RunContext]]


def work_of(held: Held) -> RunWork | None:
    """As the version says under which the slot was decided, and the parameters of who triggered it."""
    run = JobRun.objects.get(pk=held.row.id)
    # One that was made anew under the name has none of the versions of the one that was deleted.
    version = JobVersion.objects.filter(job__name=run.job, number=run.version).select_related("job").first()
    if version is None:
        return None
    job, said = version.job, version.settings
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
    secrets = secrets_given(run, said)
    return RunWork(KINDS[said["kind"]], spec_of(said, job.secret), said["acts_as"], call, secrets)


def do_work(held: Held, spool: LogSpool, within: Within) -> Ended:
    """Do the work of a run that was begun, write into its log why it failed, and keep its summary."""
    work = work_of(held)
    # Before anything is written: whoever ships it asks for them.
    spool.secrets = secrets = NO_SECRETS if work is None else work.secrets
    if work is None:
        outcome = WorkOutcome(False, "the job was deleted before it began", again=False)
    else:
        with within(work) as context:
            outcome = _by_rights(work, context)
        if context.why_stopped:
            # What it says it did, it did after its time, and perhaps beside another.
            outcome = WorkOutcome(False, context.why_stopped)
    # Also what others than those who keep to it themselves say: a kind, a receiver, the system.
    reason, summary = (_without(secrets, text) for text in (outcome.reason, outcome.summary))
    if not outcome.done:
        # The row tells of the last attempt alone.
        spool.write(f"hbus: attempt {held.row.attempt}: {reason}\n")
    if summary:
        _keep_summary(held, spool, summary)
    return Ended(RunState.DONE if outcome.done else RunState.FAILED, reason, outcome.again)


def _keep_summary(held: Held, spool: LogSpool, summary: str) -> None:
    """The work has ended: whatever hinders this, it ended as it did."""
    # Cut last: what takes the place of a secret may be longer than that.
    fits = shortened(summary, SUMMARY_LIMIT)
    try:
        JobRun.objects.filter(pk=held.row.id, epoch=held.epoch, state=RunState.RUNNING).update(summary=fits)
    except DatabaseRefusal as error:
        tell = _log.warning if is_away(error) else _log.exception
        tell("the summary of a run is not kept", run=held.row.id, error=words_of(error))
        with suppress(OSError):
            spool.write(f"hbus: its summary, which the database did not take: {fits}\n")


def _without(secrets: SecretValues, text: str) -> str:
    return secrets.out_of(text, cut=len(text) >= SUMMARY_LIMIT)


def _by_rights(work: RunWork, context: RunContext) -> WorkOutcome:
    try:
        acting = actor_named(work.acts_as)
        # Whatever it does besides: who may not say any more what the job does, has it do nothing.
        require(acting, JOB_EDIT, work.call.job)
        # What is asked of the database before may take longer than the lease.
        if context.why_stopped:
            return WorkOutcome(False, context.why_stopped)
        return work.kind.run(acting, work.spec, context)
    except Forbidden as error:
        return WorkOutcome(False, error.what, again=False)
