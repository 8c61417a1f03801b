"""Tags of jobs: words by which the runs of several jobs are limited together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from django.db.models import Exists, OuterRef, QuerySet

from engine.core.errors import BadInput
from engine.cron.slots.overlap import MOST_TAGGED
from engine.cron.slots.steps import RunState
from hbus_console.jobs.models import Job, JobRun, JobTag, TagLimit

#: Tags of one job, and characters of one.
MOST_TAGS, LONGEST_TAG = 10, 40
_TAG = re.compile(rf"[a-z0-9][a-z0-9._-]{{0,{LONGEST_TAG - 1}}}")


def read_tags(text: str) -> list[str]:
    """The tags of ``database nightly``, in order. Raises ``BadInput`` naming the one that is none."""
    found = sorted(set(text.replace(",", " ").split()))
    for tag in found:
        check_tag(tag, "tags")
    if len(found) > MOST_TAGS:
        raise BadInput(f"These are {len(found)} tags.", remedy=f"A job has {MOST_TAGS} at most.", field="tags")
    return found


def check_word(word: str, what: str, field: str) -> str:
    """Raises ``BadInput`` for what is no ``what``, where that is one word."""
    if not _TAG.fullmatch(word):
        raise BadInput(
            f"{word[:60]!r} is no {what}.",
            remedy=f"Use up to {LONGEST_TAG} of a to z, digits, dot, dash and underscore.",
            field=field,
        )
    return word


def check_tag(tag: str, field: str = "tag") -> str:
    """Raises ``BadInput`` for what is no tag."""
    return check_word(tag, "tag", field)


def keep_tags(job: Job) -> None:
    """Have the job found by its tags. In the transaction that saves it."""
    JobTag.objects.filter(job=job).delete()
    JobTag.objects.bulk_create(JobTag(job=job, tag=tag) for tag in job.tags.split())


def open_under(tags: Iterable[str]) -> QuerySet[JobRun]:
    """Open runs of jobs that have one of these.

    Asked of each open run, of which there are few however many jobs share a tag: whoever begins one waits for the
    answer, under the lock of the limit.
    """
    tagged = JobTag.objects.filter(job__name=OuterRef("job"), tag__in=list(tags))
    return JobRun.objects.filter(Exists(tagged), ended_us=None)


def full_tags(tags: Sequence[str], *, lock: bool = False) -> dict[str, int]:
    """Those of ``tags`` under which no further run may begin, with how many run.

    With ``lock`` nobody else begins one under them before the transaction is over.
    """
    if not tags:
        return {}
    limits = TagLimit.objects.filter(tag__in=tags, most_at_once__gt=0).order_by("tag")
    found = {}
    for limit in limits.select_for_update() if lock else limits:
        running = open_under([limit.tag]).filter(state=RunState.RUNNING).count()
        if running >= limit.most_at_once:
            found[limit.tag] = running
    return found


def words_of_full(full: dict[str, int]) -> str:
    """The end of a sentence: what a run waits for."""
    return " and ".join(f"room under the tag {tag}, of which {count:,} run" for tag, count in full.items())


def next_of_tags(tags: Sequence[str]) -> dict[int, str]:
    """Of each job that shares one of these, where that is limited, the run that has waited longest, and its part."""
    limits = TagLimit.objects.filter(tag__in=tags, most_at_once__gt=0)
    limited = list(limits.values_list("tag", flat=True)) if tags else []
    if not limited:
        return {}
    waiting = open_under(limited).filter(waits=True).order_by("slot", "pk")
    oldest: dict[str, tuple[int, str]] = {}
    for job, run, part in waiting.values_list("job", "pk", "part"):
        oldest.setdefault(job, (run, part))
    return dict(list(oldest.values())[:MOST_TAGGED])
