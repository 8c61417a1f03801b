"""Limits of tags: how many runs may run at the same time of all jobs that share one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Count

from engine.cron.slots.steps import RunState
from engine.cron.subjects import tag_subject
from hbus_console import checks
from hbus_console.access.permissions import Actor, allows, require
from hbus_console.access.scopes import namespace_q
from hbus_console.audit.already import already
from hbus_console.audit.meanwhile import require_current
from hbus_console.audit.services import record
from hbus_console.jobs.feature import JOB_LIMIT
from hbus_console.jobs.models import JobRun, JobTag, TagLimit
from hbus_console.jobs.tags import check_tag

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
        """Whether no further run may begin, for those that one may see alone."""
        return bool(self.most_at_once) and self.running >= self.most_at_once


@transaction.atomic
def set_limit(actor: Actor, tag: str, most_at_once: int, reason: str, *, was: int | None = None) -> int:
    """Let so many runs of jobs with ``tag`` run at the same time from now on; 0: any number. What runs goes on.

    Raises ``Forbidden``, ``BadInput`` naming the field, and ``Outdated`` where the limit is not what it ``was``.
    """
    require(actor, JOB_LIMIT)
    tag = check_tag(tag)
    most = checks.whole(most_at_once, "most_at_once", least=0, most=MOST_LIMIT)
    reason = checks.reason(reason)
    row = TagLimit.objects.select_for_update().filter(tag=tag).first()
    before = row.most_at_once if row else 0
    if before == most:
        stands = f"lets {most} runs run at the same time" if most else "has no limit"
        already(tag_subject(tag), stands, "job.limit", reason=reason)
        return most
    require_current(was, before, f"The limit of {tag}", tag_subject(tag))
    TagLimit.objects.update_or_create(tag=tag, defaults={"most_at_once": most})
    changed = {"before": {"most_at_once": before}, "after": {"most_at_once": most}}
    record(actor, "job.limit", tag_subject(tag), reason=reason, **changed)
    return most


def seen_tags(who: Actor) -> list[str]:
    """The tags of the jobs that ``who`` may see."""
    rows = JobTag.objects.filter(namespace_q(who, "job__name"))
    return sorted(set(rows.values_list("tag", flat=True)))


def standing_tags(who: Actor) -> list[TagStanding]:
    """The tags of the jobs that ``who`` may see; to who may limit them also the other ones that have a limit."""
    seen = JobTag.objects.filter(namespace_q(who, "job__name"))
    jobs = dict(seen.order_by().values_list("tag").annotate(Count("pk")))
    limits = dict(TagLimit.objects.filter(most_at_once__gt=0).values_list("tag", "most_at_once"))
    listed = jobs.keys() | (limits.keys() if allows(who, JOB_LIMIT) else set())
    running, waiting = _open_by_tag(who)
    return [
        TagStanding(tag, jobs.get(tag, 0), limits.get(tag, 0), running[tag], waiting[tag]) for tag in sorted(listed)
    ]


def _open_by_tag(who: Actor) -> tuple[Counter[str], Counter[str]]:
    """Runs that run, and that wait, by each tag of their job."""
    # Of the jobs that one may see, though runs wait for all of them: what others do is not told.
    rows = JobRun.objects.filter(namespace_q(who, "job"), ended_us=None).order_by()
    tags: dict[str, list[str]] = {}
    for job, tag in JobTag.objects.filter(job__name__in=rows.values("job")).values_list("job__name", "tag"):
        tags.setdefault(job, []).append(tag)
    running, waiting = Counter[str](), Counter[str]()
    for job, state, waits in rows.values_list("job", "state", "waits"):
        running.update(tags.get(job, ()) if state == RunState.RUNNING else ())
        waiting.update(tags.get(job, ()) if waits else ())
    return running, waiting
