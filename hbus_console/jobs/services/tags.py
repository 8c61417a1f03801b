"""Limits of tags: how many runs may run at the same time of all jobs that share one."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from django.db.models import Count

from engine.cron.slots.steps import RunState
from engine.cron.subjects import tag_subject
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.access.scopes import namespace_q
from hbus_console.audit.already import already
from hbus_console.audit.services import record
from hbus_console.jobs.feature import JOB_LIMIT
from hbus_console.jobs.models import JobRun, JobTag, TagLimit
from hbus_console.jobs.tags import check_tag, jobs_with

#: Runs that a limit may let run.
MOST_LIMIT = 10_000


@dataclass(frozen=True)
class TagStanding:
    """A tag and how it stands, as far as one may see its jobs."""

    tag: str
    jobs: int
    #: 0: any number may run.
    most_at_once: int
    running: int
    #: Runs that wait, for room here or for another run of their job.
    waiting: int

    @property
    def full(self) -> bool:
        """Whether no further run may begin."""
        return bool(self.most_at_once) and self.running >= self.most_at_once


@transaction.atomic
def set_limit(actor: Actor, tag: str, most_at_once: int, reason: str) -> int:
    """Let so many runs of jobs with ``tag`` run at the same time from now on; 0: any number. What runs goes on.

    Raises ``Forbidden``, and ``BadInput`` naming the field.
    """
    require(actor, JOB_LIMIT)
    tag = check_tag(tag)
    most = checks.whole(most_at_once, "most_at_once", least=0, most=MOST_LIMIT)
    reason = checks.reason(reason)
    row = TagLimit.objects.select_for_update().filter(tag=tag).first()
    before = row.most_at_once if row else 0
    if before == most:
        already(tag_subject(tag), f"lets {most} runs run at the same time" if most else "has no limit", "job.limit")
        return most
    TagLimit.objects.update_or_create(tag=tag, defaults={"most_at_once": most})
    changed = {"before": {"most_at_once": before}, "after": {"most_at_once": most}}
    record(actor, "job.limit", tag_subject(tag), reason=reason, **changed)
    return most


def seen_tags(who: Actor) -> list[str]:
    """The tags of the jobs that ``who`` may see."""
    rows = JobTag.objects.filter(namespace_q(who, "job__name"))
    return sorted(set(rows.values_list("tag", flat=True)))


def standing_tags(who: Actor) -> list[TagStanding]:
    """The tags of the jobs that ``who`` may see, and those with a limit that no job has."""
    seen = JobTag.objects.filter(namespace_q(who, "job__name"))
    jobs = dict(seen.order_by().values_list("tag").annotate(Count("pk")))
    limits = dict(TagLimit.objects.filter(most_at_once__gt=0).values_list("tag", "most_at_once"))
    unused = limits.keys() - set(JobTag.objects.values_list("tag", flat=True))
    return [_standing(tag, jobs.get(tag, 0), limits.get(tag, 0)) for tag in sorted(jobs.keys() | unused)]


def _standing(tag: str, jobs: int, most: int) -> TagStanding:
    # Of all jobs, also those that one may not see: that is what a run waits for.
    runs = JobRun.objects.filter(job__in=jobs_with([tag]), ended_us=None)
    return TagStanding(tag, jobs, most, runs.filter(state=RunState.RUNNING).count(), runs.filter(waits=True).count())
