"""Runs that somebody asks for: the same path as a slot's, beside all slots, and never in place of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import uuid4

import structlog
from django.db import transaction

from engine.core.errors import BadInput, NotThere, Unavailable
from engine.cron.slots.steps import Offer, RunState
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.already import already
from hbus_console.audit.services import record
from hbus_console.jobs.feature import JOB_RUN
from hbus_console.jobs.judge import SlotJudge, database_time
from hbus_console.jobs.kinds.names import WorkName
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.queue import offer
from hbus_console.jobs.services.draft import snapshot
from hbus_console.jobs.services.jobs import Now, job
from hbus_console.jobs.services.work import check_parameters, schema_of
from hbus_console.jobs.showing import masked

_KEY_LIMIT = 128

_log = structlog.get_logger(__name__)


class Trigger(NamedTuple):
    """What somebody asks for. Without parameters they are those of the job; under the same ``key`` it is one run."""

    parameters: Mapping[str, Any] | None = None
    reason: str = ""
    key: str = ""


class Triggered(NamedTuple):
    """The run, and whether this asking made it."""

    run: JobRun
    new: bool


@transaction.atomic
def trigger(actor: Actor, name: str, asked: Trigger, *, now_s: Now = database_time) -> Triggered:
    """Have a job run now, also one that is paused.

    Raises ``Forbidden``, :class:`NotThere`, and :class:`BadInput` naming the field; nothing is left of what is refused.
    """
    require(actor, JOB_RUN, name)
    row = job(name, lock=True)
    if row.kind == WorkName.ELSEWHERE:
        raise BadInput(
            f"{name} runs elsewhere: hbus only hears of its runs.", remedy=f"Start it there: {row.target}.", field="job"
        )
    reason = checks.reason(asked.reason)
    key = checks.text(asked.key, "key", most=_KEY_LIMIT) or uuid4().hex
    parameters = checked_parameters(row, asked.parameters)
    known = run_of_key(name, key)
    if known is not None:
        _refuse_another(known, parameters)
        return Triggered(known, new=False)
    now_us = round(now_s() * 1_000_000)
    run = JobRun.objects.create(
        job=name,
        version=row.version,
        slot=now_us // 1_000_000,
        kind=JobRun.Kind.MANUAL,
        state=RunState.CLAIMED,
        decided_us=now_us,
        changed_us=now_us,
        asked_by=actor.name,
        asked_why=reason,
        key=key,
        parameters=parameters,
    )
    shown = masked(parameters, schema_of(snapshot(row)))
    record(actor, "job.trigger", run.subject, reason=reason, after={"job": name, "parameters": shown})
    transaction.on_commit(lambda: offer_soon(run.pk))
    return Triggered(run, new=True)


def cancel_run(actor: Actor, name: str, run_id: int, reason: str) -> JobRun:
    """Have a run stopped: one that waits never begins; one that runs is asked to end, and ended if it does not listen.

    It is cancelled once its worker has heard of it, within seconds. Of one that is over nothing is changed. One that
    runs elsewhere is cancelled at once, and goes on there: its end is waited for no longer.
    """
    require(actor, JOB_RUN, name)
    reason = checks.reason(reason)
    run = run_of(name, run_id)
    elsewhere = Job.objects.filter(name=name, kind=WorkName.ELSEWHERE).exists()
    with transaction.atomic():
        if SlotJudge().request_cancel(run.pk, f"{actor.name} cancelled it: {reason}", at_once=elsewhere):
            record(actor, "job.cancel", run.subject, reason=reason)
        else:
            already(run.subject, f"is {run.state}")
    run.refresh_from_db()
    return run


def run_of(job_name: str, run_id: int) -> JobRun:
    """A run of a job; raises :class:`NotThere`."""
    found = JobRun.objects.filter(job=job_name, pk=run_id).first()
    if found is None:
        raise NotThere(f"{job_name} has no run {run_id}.", remedy="Look at the runs of the job.", field="run")
    return found


def run_of_key(job_name: str, key: str) -> JobRun | None:
    """The run that this key has made."""
    return JobRun.objects.filter(job=job_name, key=key, kind=JobRun.Kind.MANUAL).first()


def checked_parameters(row: Job, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a run would be given, checked; the job's own for ``None``. Raises ``BadInput``."""
    if given is not None and not isinstance(given, Mapping):
        raise BadInput(
            "The parameters are no JSON object.", remedy='For example {"hotel": "HB-1"}.', field="parameters"
        )
    parameters = dict(row.parameters if given is None else given)
    check_parameters(snapshot(row), parameters)
    return parameters


def _refuse_another(known: JobRun, parameters: Mapping[str, Any]) -> None:
    if known.parameters != parameters:
        raise BadInput(
            f"This key has made run {known.pk} of {known.job}, with other parameters.",
            remedy="Use a new key for a new run.",
            field="key",
        )


def offer_soon(run: int) -> None:
    """Give it to the workers, once what made it is committed; where they cannot be reached, it is offered later."""
    try:
        offer(Offer((run,)))
    except Unavailable as error:
        # It stands in the database, and is offered again as every run that nobody began.
        _log.warning("a triggered run is not offered yet", run=run, error=error.what)
