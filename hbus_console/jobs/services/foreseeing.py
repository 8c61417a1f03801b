"""The dry run of a trigger: what a run would meet if it were asked for now. Nothing is written, and nothing done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from engine.core.errors import HbusError, Unavailable
from engine.cron.slots.overlap import judged_overlap
from engine.cron.slots.steps import Beginning, RunRow, RunState
from hbus_console.access.permissions import Actor, require
from hbus_console.cluster.services import living
from hbus_console.jobs.busy import room_for
from hbus_console.jobs.columns import Division
from hbus_console.jobs.feature import JOB_EDIT, JOB_RUN
from hbus_console.jobs.following import followers_seen
from hbus_console.jobs.judge import row_of
from hbus_console.jobs.kinds.known import KINDS
from hbus_console.jobs.known import policy_of
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.part_words import part_words
from hbus_console.jobs.rights import actor_named, words_of_identity
from hbus_console.jobs.services.draft import snapshot
from hbus_console.jobs.services.jobs import job
from hbus_console.jobs.services.secrets import target_for
from hbus_console.jobs.services.triggering import (
    Trigger,
    checked_parameters,
    refuse_another,
    runs_of_key,
    wanted_parts,
)
from hbus_console.jobs.services.work import spec_of
from hbus_console.jobs.tags import full_tags, words_of_full
from hbus_console.nodes.stamps import of_role
from hbus_console.ui.formats import counted

_BEFORE_ANY_NUMBER = 2**62
#: How that begins what a run is told that nothing hinders.
_AT_ONCE = "at once"


@dataclass(frozen=True)
class Foresight:
    """One thing that is to be known. ``tone``: empty, ``warn`` or ``bad``."""

    label: str
    said: str
    tone: str = ""


def foresee(actor: Actor, name: str, asked: Trigger) -> list[Foresight]:
    """What :func:`~hbus_console.jobs.services.triggering.trigger` would lead to.

    Raises what that would, but asks for no reason.
    """
    require(actor, JOB_RUN, name)
    row = job(name)
    if known := runs_of_key(name, asked.key) if asked.key else []:
        refuse_another(actor, known[0], asked)
        return [Foresight("the key", f"has made run {known[0].pk} already: nothing new would run", "warn")]
    checked_parameters(actor, row, asked.parameters)
    way = list(_way(row, asked.part))
    return [*_work(actor, row), *_parts(row, asked.part), *_with_room(row, asked.part, way), *_then(actor, row)]


def _work(actor: Actor, row: Job) -> Iterator[Foresight]:
    yield Foresight("does", f"{KINDS[row.kind].words}: {target_for(actor, row.name, snapshot(row))}")
    try:
        acting = actor_named(row.acts_as)
        KINDS[row.kind].check(acting, spec_of(snapshot(row)))
        require(acting, JOB_EDIT, row.name)
    except HbusError as error:
        yield Foresight("by the rights of", f"{words_of_identity(row.acts_as)}, and would fail: {error.what}", "bad")
    else:
        yield Foresight("by the rights of", words_of_identity(row.acts_as))
    if row.paused:
        yield Foresight("paused", "a run that is asked for runs all the same")


def _parts(row: Job, only: str) -> Iterator[Foresight]:
    if row.division == Division.WHOLE and not only:
        return
    try:
        parts = wanted_parts(row, only)
    except Unavailable as error:
        yield Foresight("runs", f"nobody knows on which nodes: {error.what}", "bad")
    else:
        yield Foresight("runs", f"{counted(len(parts), 'run')}: {', '.join(part_words(part) for part in parts)}")


def _way(row: Job, only: str) -> Iterator[Foresight]:
    policy = policy_of(row)
    open_runs = JobRun.objects.filter(job=row.name, ended_us=None)
    running = [run for run in open_runs if run.state == RunState.RUNNING]
    full = {} if not policy.binds_manual else full_tags(policy.tags)
    if full:
        yield Foresight("begins", f"once there is {words_of_full(full)}", "warn")
    elif not running:
        yield Foresight("begins", "at once: no other run of it is running")
    elif not policy.binds_manual or not policy.limit:
        yield Foresight("begins", f"at once, beside {counted(len(running), 'other run')} of it")
    elif policy.per_node:
        yield Foresight("begins", "at once on a node where none of it runs", "warn")
    else:
        yield from _meets(row, only, [run for run in open_runs if run.state == RunState.RUNNING or run.waits])
    found, trouble = living()
    if trouble:
        yield Foresight("workers", f"nobody knows: {trouble}", "warn")
    elif not of_role(found, "jobs"):
        yield Foresight("workers", "none is alive: it waits for one", "bad")
    yield Foresight("stopped after", f"{row.timeout_s:,} s" if row.timeout_s else "never: it has all the time it takes")
    if row.attempts > 1:
        yield Foresight("tried", f"up to {counted(row.attempts, 'time')}")


def _with_room(row: Job, only: str, way: list[Foresight]) -> Iterator[Foresight]:
    """What nothing of its job hinders begins at once only where a worker is free."""
    try:
        full = room_for(wanted_parts(row, only))
    except Unavailable:
        full = ""
    for each in way:
        if full and each.label == "begins" and each.said.startswith(_AT_ONCE):
            yield replace(each, said=full + each.said.removeprefix(_AT_ONCE), tone="warn")
        else:
            yield each


def _meets(row: Job, only: str, others: list[JobRun]) -> Iterator[Foresight]:
    """As the judge would have it, were each of its parts to begin now."""
    try:
        parts = wanted_parts(row, only)
    except Unavailable:
        # Which there are is told to be unknown already.
        return
    alike: dict[Foresight, list[str]] = {}
    for part in parts:
        alike.setdefault(_met(row, part, others), []).append(part_words(part))
    for found, named in alike.items():
        yield found if len(alike) == 1 else replace(found, said=f"{found.said} ({', '.join(named)})")


def _met(row: Job, part: str, others: list[JobRun]) -> Foresight:
    policy = policy_of(row)
    new = RunRow(_BEFORE_ANY_NUMBER, row.name, _BEFORE_ANY_NUMBER, RunState.CLAIMED, 0, 1, 0.0, manual=True, part=part)
    verdict = judged_overlap(new, [row_of(each) for each in others], policy)
    meets = [str(run.pk) for run in others if run.state == RunState.RUNNING and policy.meet(part, run.part)]
    runs = f"run {', '.join(meets)}"
    if verdict.beginning is Beginning.BEGUN:
        return Foresight("begins", f"at once, beside {runs}" if meets else "at once: no other such run is running")
    if verdict.ends:
        return Foresight("begins", f"not at all: {verdict.ends}", "bad")
    if verdict.cancelled:
        return Foresight("begins", f"once {runs} has ended, which is told to stop", "warn")
    return Foresight("begins", f"once {runs} has ended", "warn")


def _then(actor: Actor, row: Job) -> Iterator[Foresight]:
    if words := followers_seen(actor, row.name).words:
        yield Foresight("then run", words, "warn")
