"""Runs that somebody asks for: the same path as a slot's, beside all slots, and never in place of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import uuid4

import structlog
from django.conf import settings
from django.db import transaction

from engine.core.errors import BadInput, NotThere, Unavailable
from engine.cron.slots.parts import WHOLE
from engine.cron.slots.steps import Offer, RunState
from hbus_console import checks
from hbus_console.access.permissions import Actor, Forbidden, require
from hbus_console.audit.already import already
from hbus_console.audit.services import record
from hbus_console.jobs.columns import Division
from hbus_console.jobs.feature import JOB_RUN
from hbus_console.jobs.judge import SlotJudge, database_time
from hbus_console.jobs.kinds.known import KINDS
from hbus_console.jobs.known import cron_job
from hbus_console.jobs.models import FormerJob, Job, JobRun, JobVersion
from hbus_console.jobs.queue import offer
from hbus_console.jobs.services.draft import snapshot
from hbus_console.jobs.services.jobs import Now, job
from hbus_console.jobs.services.secrecy import secrecy_of
from hbus_console.jobs.services.secrets import target_for
from hbus_console.jobs.services.work import check_parameters, schema_of, spec_of
from hbus_console.jobs.showing import restored
from hbus_console.jobs.workers import working_nodes
from hbus_console.wiring import store

_KEY_LIMIT = 128

_log = structlog.get_logger(__name__)


class Trigger(NamedTuple):
    """What somebody asks for. Without parameters they are those of the job; under the same ``key`` it is one run.

    ``part`` is the only one that is wanted of a job that is divided; without it all of them run.
    """

    parameters: Mapping[str, Any] | None = None
    reason: str = ""
    key: str = ""
    part: str = ""


class Triggered(NamedTuple):
    """The run, the first where there are more, and whether this asking made it."""

    run: JobRun
    new: bool
    #: Those that it made besides: one for each further part.
    others: tuple[JobRun, ...] = ()

    @property
    def words(self) -> str:
        """What waits for a worker now."""
        number = len(self.others) + 1
        return f"Run {self.run.pk}" if number == 1 else f"{number} runs, {self.run.pk} and more,"


@transaction.atomic
def trigger(actor: Actor, name: str, asked: Trigger, *, now_s: Now = database_time) -> Triggered:
    """Have a job run now, also one that is paused.

    Raises ``Forbidden``, :class:`NotThere`, and :class:`BadInput` naming the field; nothing is left of what is refused.
    Of a job that runs on every node also ``Unavailable``, where the store cannot say which there are.
    """
    require(actor, JOB_RUN, name)
    row = job(name, lock=True)
    if row.elsewhere:
        raise BadInput(
            f"{name} runs elsewhere: hbus only hears of its runs.",
            remedy=f"Start it there: {target_for(actor, name, snapshot(row))}.",
            field="job",
        )
    reason = checks.reason(asked.reason)
    key = checks.text(asked.key, "key", most=_KEY_LIMIT)
    if known := runs_of_key(name, key) if key else []:
        refuse_another(actor, known[0], asked)
        return Triggered(known[0], new=False, others=tuple(known[1:]))
    key = key or uuid4().hex
    parameters = checked_parameters(actor, row, asked.parameters)
    now_us = round(now_s() * 1_000_000)
    runs = [
        JobRun.objects.create(
            job=name,
            version=row.version,
            slot=now_us // 1_000_000,
            kind=JobRun.Kind.MANUAL,
            part=part,
            state=RunState.CLAIMED,
            decided_us=now_us,
            changed_us=now_us,
            asked_by=actor.name,
            asked_why=reason,
            key=key,
            parameters=parameters,
        )
        for part in wanted_parts(row, asked.part)
    ]
    shown = secrecy_of(name).masked(parameters, snapshot(row))
    after = {"job": name, "parameters": shown}
    if row.division != Division.WHOLE:
        after["runs"] = {run.part: run.pk for run in runs}
    record(actor, "job.trigger", runs[0].subject, reason=reason, after=after)
    offered = Offer(tuple(run.pk for run in runs), {run.pk: node for run in runs if (node := run.node_wanted)})
    transaction.on_commit(lambda: offer_soon(offered))
    return Triggered(runs[0], new=True, others=tuple(runs[1:]))


def cancel_run(actor: Actor, name: str, run_id: int, reason: str) -> JobRun:
    """Have a run stopped: one that waits never begins; one that runs is asked to end, and ended if it does not listen.

    It is cancelled once its worker has heard of it, within seconds. Of one that is over nothing is changed. One that
    runs elsewhere is cancelled at once, and goes on there: its end is waited for no longer.
    """
    require(actor, JOB_RUN, name)
    reason = checks.reason(reason)
    run = run_of(name, run_id)
    elsewhere = Job.objects.elsewhere().filter(name=name).exists()
    with transaction.atomic():
        if SlotJudge().request_cancel(run.pk, f"{actor.name} cancelled it: {reason}", at_once=elsewhere):
            record(actor, "job.cancel", run.subject, reason=reason)
        else:
            already(run.subject, f"is {run.state}", reason=reason)
    run.refresh_from_db()
    return run


def run_of(job_name: str, run_id: int) -> JobRun:
    """A run of a job; raises :class:`NotThere`."""
    found = JobRun.objects.filter(job=job_name, pk=run_id).first()
    if found is None:
        raise NotThere(f"{job_name} has no run {run_id}.", remedy="Look at the runs of the job.", field="run")
    return found


def runs_of_key(job_name: str, key: str) -> list[JobRun]:
    """The runs that this key has made, the first part first."""
    return list(JobRun.objects.filter(job=job_name, key=key, kind=JobRun.Kind.MANUAL).order_by("pk"))


def wanted_parts(row: Job, only: str = "") -> tuple[str, ...]:
    """The parts that a trigger makes runs of now: all, or one. Raises ``BadInput`` and ``Unavailable``."""
    nodes = working_nodes(store.client(), settings.HBUS_PREFIX) if row.division == Division.NODES else ()
    parts = cron_job(row).parts(nodes)
    if not parts:
        raise BadInput(
            f"{row.name} runs on every node that does jobs, and none is alive.",
            remedy="Start one with the role jobs.",
            field="job",
        )
    if only and only not in parts:
        raise BadInput(
            f"{row.name} has no part {only!r} now.",
            remedy=f"Its parts are {', '.join(parts)}." if parts != (WHOLE,) else "It is not divided: leave it out.",
            field="part",
        )
    return (only,) if only else parts


def checked_parameters(actor: Actor, row: Job, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a run would be given, checked; the job's own for ``None``. Raises ``BadInput`` and ``Forbidden``.

    A secret that is not typed is not asked about: whoever sets what lies beside it would learn what it is.
    """
    settings, parameters = snapshot(row), dict(row.parameters)
    secrecy = secrecy_of(row.name)
    hidden = secrecy.masked(row.parameters, settings)
    written = hidden if given is None else _an_object(given)
    if given is not None:
        parameters = restored(written, row.parameters, hidden)
    checks.storable(parameters, "parameters")
    # A secret that is typed counts as another, also where it is the job's: else it could be found by guesses.
    if written != hidden and schema_of(settings) is None:
        _require_the_work(actor, settings)
    check_parameters(settings, written, secrecy.masked(written, settings))
    return parameters


def _require_the_work(actor: Actor, settings: Mapping[str, Any]) -> None:
    """By its schema whoever saved the job said what others may have it do by their rights; without one nobody did."""
    try:
        KINDS[settings["kind"]].check(actor, spec_of(settings))
    except Forbidden as error:
        raise Forbidden(
            f"{error.what.removesuffix('.')}, and this job has no schema for parameters of others.",
            remedy=f"{error.remedy} Or run it with its own parameters, or have an editor give it a schema.",
            field="parameters",
            action=error.action,
            resource=error.resource,
        ) from error


def _an_object(given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise BadInput(
            "The parameters are no JSON object.", remedy='For example {"hotel": "HB-1"}.', field="parameters"
        )
    return given


def refuse_another(actor: Actor, known: JobRun, asked: Trigger) -> None:
    """Raises ``BadInput`` where what is ``asked`` under the key of a run that is ``known`` is not the same call again.

    Whatever became of the job since, that says nothing else. Secrets are not compared: one's own run may have those of
    the job, and a refusal that leaves no trace would tell who guesses.
    """
    if known.asked_by != actor.name:
        # Not what it differs in: the parameters of others are masked for whoever asks.
        other = "which somebody else asked for"
    elif FormerJob.objects.filter(name=known.job, version__gte=known.version).exists():
        other = "when another job had this name"
    elif asked.parameters is not None and not _is_alike(known, _an_object(asked.parameters)):
        other = "with other parameters"
    elif asked.part and known.part != asked.part:
        other = "of another part"
    else:
        return
    raise BadInput(
        f"This key has made run {known.pk} of {known.job}, {other}.",
        remedy="Use a new key for a new run.",
        field="key",
    )


def _is_alike(known: JobRun, parameters: Mapping[str, Any]) -> bool:
    version = JobVersion.objects.filter(job__name=known.job, number=known.version).first()
    return secrecy_of(known.job).alike(parameters, known.parameters or {}, version.settings if version else None)


def offer_soon(offered: Offer) -> None:
    """Give runs to the workers, once what made them is committed; where they cannot be reached, they are later."""
    try:
        offer(offered)
    except Unavailable as error:
        # They stand in the database, and are offered again as every run that nobody began.
        _log.warning("what was triggered is not offered yet", runs=offered.runs, error=error.what)
