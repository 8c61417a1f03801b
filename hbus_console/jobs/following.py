"""Runs that begin because a run of another job has ended: made by the transaction that ends it, once for each end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from django.db.models import QuerySet

from engine.core.errors import BadInput
from engine.cron.slots.parts import shards
from engine.cron.slots.steps import WORST_FIRST, RunState
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, allows
from hbus_console.access.scopes import namespace_q
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


def check_after(actor: Actor, name: str, text: str, before: str = "", *, typed: bool = True) -> None:
    """Raises ``BadInput`` where it names a job that is not there, or one that itself runs after this one.

    One that ``actor`` may not see is not there, unless the job ran after it ``before``: when that ends, and how, is
    told by the runs that follow. Where ``actor`` did not have it ``typed``, it is not named.
    """
    after, kept = read_after(text), {each.job for each in read_after(before)}
    there = set(Job.objects.filter(name__in=[each.job for each in after]).values_list("name", flat=True))
    for each in after:
        seen = each.job in there and (each.job in kept or allows(actor, VIEW, each.job))
        if each.job != name and not seen:
            words = f"There is no job {each.job}" if typed else "It would run after a job that you may not see"
            raise _refused(words, "Make it first, or correct its name.")
        if path := _path(each.job, name):
            way = [job if allows(actor, VIEW, job) else "a job that you may not see" for job in (name, *path)]
            raise _refused(f"It would run after itself: {' runs after '.join(way)}", "Leave one of them out.")


def keep_after(job: Job) -> None:
    """Have what the job says it runs after looked up by that. In the transaction that saves it."""
    JobAfter.objects.filter(job=job).delete()
    JobAfter.objects.bulk_create(
        JobAfter(job=job, upstream=each.job, ended=each.ended) for each in read_after(job.after)
    )


def following(name: str) -> QuerySet[JobAfter]:
    """Who runs after this job."""
    return JobAfter.objects.filter(upstream=name).select_related("job").order_by("job__name")


class Followers(NamedTuple):
    """Who runs after a job, as far as somebody may see them."""

    seen: list[JobAfter]
    #: How many there are besides.
    hidden: int

    @property
    def words(self) -> str:
        """Their names, with what they wait for."""
        told = [f"{each.job.name} on {each.ended}" for each in self.seen]
        if self.hidden:
            told.append(f"{self.hidden} that you may not see")
        return ", ".join(told)


def followers_seen(who: Actor, name: str) -> Followers:
    """Who runs after this job, as far as ``who`` may see them."""
    seen = list(following(name).filter(namespace_q(who, "job__name")))
    return Followers(seen, following(name).count() - len(seen))


def open_followers(ended: JobRun, state: str, now_us: int) -> tuple[int, ...]:
    """Make a run of each job that runs after such an end of ``ended``, inside its transaction; those nobody began yet.

    However often it is called for the same run, each has one. Of what is divided the end is that of its last part: who
    writes it holds the lock of the job.
    """
    whole = _end_of_all(ended, state)
    if whole is None:
        return ()
    first, state, words = whole
    found: list[int] = []
    for each in following(ended.job).filter(ended__in=words):
        for part in shards(each.job.shards):
            run = _follower(each.job, part, first, state, now_us)
            if run.state == RunState.CLAIMED:
                found.append(run.pk)
    return tuple(found)


def _follower(job: Job, part: str, ended: JobRun, state: str, now_us: int) -> JobRun:
    run, _ = JobRun.objects.get_or_create(
        job=job.name,
        kind=JobRun.Kind.AFTER,
        key=key_after(ended.pk),
        part=part,
        defaults={
            "version": job.version,
            "slot": now_us // 1_000_000,
            "state": RunState.SKIPPED if job.held else RunState.CLAIMED,
            "reason": job.held,
            "decided_us": now_us,
            "changed_us": now_us,
            "ended_us": now_us if job.held else None,
            "asked_by": f"job {ended.job}"[:200],
            "asked_why": f"run {ended.pk} of {ended.job} ended: {state}",
        },
    )
    return run


def _end_of_all(ended: JobRun, state: str) -> tuple[JobRun, str, tuple[EndedAs, ...]] | None:
    """The first part of what ``ended`` is a part of, how the whole ended, and after which words others follow that.

    ``None`` while any part is open.
    """
    if not ended.part:
        return ended, state, _FOLLOWED.get(state, ())
    parts = list(parts_of(JobRun.objects.get(pk=ended.pk)))
    if any(part.ended_us is None for part in parts):
        return None
    states = {part.state for part in parts}
    worst = next(each for each in WORST_FIRST if each in states)
    # Where some parts ran and others never did, it has ended, and not as it should.
    in_part = (EndedAs.ANY,) if len(states) > 1 else ()
    return parts[0], worst, _FOLLOWED.get(worst, in_part)


def parts_of(run: JobRun) -> QuerySet[JobRun]:
    """All parts of what ``run`` is a part of, the first first; none of what is not divided."""
    if not run.part:
        return JobRun.objects.none()
    return JobRun.objects.filter(job=run.job, slot=run.slot, kind=run.kind, key=run.key).order_by("pk")


def key_after(run: int) -> str:
    """The key of each run that follows ``run``: of every job there is one."""
    return f"{_KEY}{run}"


def upstream_of(run: JobRun) -> JobRun | None:
    """The run that this one follows, if it does and that is still kept."""
    if run.kind != JobRun.Kind.AFTER:
        return None
    return JobRun.objects.filter(pk=int(run.key.removeprefix(_KEY))).first()


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
