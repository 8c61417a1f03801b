"""Runs that begin because a run of another job has ended: made by the transaction that ends it, once for each end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from django.db.models import QuerySet

from engine.core.errors import BadInput
from engine.cron.slots.steps import RunState
from hbus_console.jobs.models import Job, JobAfter, JobRun

#: Jobs that one job may run after.
MOST_AFTER = 20
_KEY = "run-"


class EndedAs(StrEnum):
    """After which ends of another job a job runs."""

    SUCCESS = "success"
    FAILURE = "failure"
    ANY = "any"


#: By how a run ended, after which words others follow it. One that was skipped never ran, and nobody follows it.
_FOLLOWED: Mapping[str, tuple[EndedAs, ...]] = {
    RunState.DONE: (EndedAs.SUCCESS, EndedAs.ANY),
    RunState.FAILED: (EndedAs.FAILURE, EndedAs.ANY),
    RunState.LOST: (EndedAs.FAILURE, EndedAs.ANY),
    RunState.ABANDONED: (EndedAs.FAILURE, EndedAs.ANY),
    RunState.CANCELLED: (EndedAs.ANY,),
}


class After(NamedTuple):
    """One line of what a job runs after."""

    job: str
    ended: EndedAs


def read_after(text: str) -> list[After]:
    """Of ``hotel.close-of-day success``, a line each. Raises ``BadInput`` naming the line."""
    found: dict[str, After] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not (words := line.split()):
            continue
        name, ended, *more = [*words, EndedAs.SUCCESS.value] if len(words) == 1 else words
        if more or ended not in set(EndedAs):
            raise _refused(f"Line {number}, {line.strip()!r}, is not a job and one of success, failure and any")
        if name in found:
            raise _refused(f"Line {number} names {name} a second time")
        found[name] = After(name, EndedAs(ended))
    if len(found) > MOST_AFTER:
        raise _refused(f"It names {len(found)} jobs, and may name {MOST_AFTER}")
    return list(found.values())


def written(after: Sequence[After]) -> str:
    """The text that :func:`read_after` reads."""
    return "\n".join(f"{each.job} {each.ended}" for each in after)


def check_after(name: str, text: str) -> None:
    """Raises ``BadInput`` where it names a job that is not there, or one that itself runs after this one."""
    after = read_after(text)
    there = set(Job.objects.filter(name__in=[each.job for each in after]).values_list("name", flat=True))
    for each in after:
        if each.job != name and each.job not in there:
            raise _refused(f"There is no job {each.job}", "Make it first, or correct its name.")
        if path := _path(each.job, name):
            raise _refused(f"It would run after itself: {' runs after '.join([name, *path])}", "Leave one of them out.")


def keep_after(job: Job) -> None:
    """Have what the job says it runs after looked up by that. In the transaction that saves it."""
    JobAfter.objects.filter(job=job).delete()
    JobAfter.objects.bulk_create(
        JobAfter(job=job, upstream=each.job, ended=each.ended) for each in read_after(job.after)
    )


def following(name: str) -> QuerySet[JobAfter]:
    """Who runs after this job."""
    return JobAfter.objects.filter(upstream=name).select_related("job").order_by("job__name")


def open_followers(ended: JobRun, state: str, now_us: int) -> tuple[int, ...]:
    """Make a run of each job that runs after such an end of ``ended``, inside its transaction; those nobody began yet.

    However often it is called for the same run, each has one.
    """
    found: list[int] = []
    for each in following(ended.job).filter(ended__in=_FOLLOWED.get(state, ())):
        held = held_by(each.job)
        run, _ = JobRun.objects.get_or_create(
            job=each.job.name,
            kind=JobRun.Kind.AFTER,
            key=key_after(ended.pk),
            defaults={
                "version": each.job.version,
                "slot": now_us // 1_000_000,
                "state": RunState.SKIPPED if held else RunState.CLAIMED,
                "reason": held,
                "decided_us": now_us,
                "changed_us": now_us,
                "ended_us": now_us if held else None,
                "asked_by": f"job {ended.job}"[:200],
                "asked_why": f"run {ended.pk} of {ended.job} ended: {state}",
            },
        )
        if run.state == RunState.CLAIMED:
            found.append(run.pk)
    return tuple(found)


def key_after(run: int) -> str:
    """The key of each run that follows ``run``: of every job there is one."""
    return f"{_KEY}{run}"


def upstream_of(run: JobRun) -> JobRun | None:
    """The run that this one follows, if it does and that is still kept."""
    if run.kind != JobRun.Kind.AFTER:
        return None
    return JobRun.objects.filter(pk=int(run.key.removeprefix(_KEY))).first()


def held_by(job: Job) -> str:
    """Why none of its runs that nobody asked for begins; empty: they do."""
    if job.paused:
        return f"paused: {job.pause_reason}" if job.pause_reason else "paused"
    return "nobody owns the job" if job.team_id is None else ""


def _path(begin: str, goal: str) -> list[str]:
    """From ``begin`` over what each runs after to ``goal``; empty where that is not reached."""
    before = {begin: ""}
    level = [begin]
    while level and goal not in before:
        rows = JobAfter.objects.filter(job__name__in=level).values_list("job__name", "upstream")
        new = {upstream: name for name, upstream in rows if upstream not in before}
        before |= new
        level = list(new)
    if goal not in before:
        return []
    path = [goal]
    while path[-1] != begin:
        path.append(before[path[-1]])
    return path[::-1]


def _refused(what: str, remedy: str = "Write hotel.close-of-day success, a line each.") -> BadInput:
    return BadInput(f"{what}.", remedy=remedy, field="after")
