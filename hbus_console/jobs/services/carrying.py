"""What a calendar says anew, carried to each job that has it, which makes a version of that.

A calendar may be that of thousands of jobs. What takes time is done before anybody is kept waiting: is a slot left, and
what may the audit log show? Under the lock it is looked whether the job is still as it was then, and written in few
statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F, OuterRef, Subquery
from django.utils import timezone

from engine.core.errors import BadInput
from hbus_console.access.permissions import Actor
from hbus_console.audit.services import ToldChange, record_all
from hbus_console.jobs.calendars import lines_among
from hbus_console.jobs.models import Job, JobCalendar, JobCursor, JobVersion
from hbus_console.jobs.services.draft import refuse_nothing_left, snapshot
from hbus_console.jobs.services.jobs import Why, told_change
from hbus_console.jobs.services.secrecy import secrecies

#: Jobs, or versions of them, in one statement.
_BATCH = 200


@dataclass(frozen=True)
class Carried:
    """What becomes of one job: its settings before and after, and how that is told."""

    job: Job
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    told: ToldChange

    @property
    def lines(self) -> str:
        """What its calendars say from now on."""
        said: str = self.after["calendar_lines"]
        return said


def carried(
    jobs: Sequence[Job], name: str, lines: str, known: Mapping[int, Carried] | None = None
) -> dict[int, Carried]:
    """What becomes of each of ``jobs`` whose lines change with those of the calendar ``name``, by its key.

    What is ``known`` of a job that is as it was then is not reckoned again. Raises ``BadInput`` naming the first job
    that would be left no slot.
    """
    said = {**dict(JobCalendar.objects.values_list("name", "lines")), name: lines}
    found: dict[int, Carried] = {}
    for start in range(0, len(jobs), _BATCH):
        new: dict[int, tuple[Job, dict[str, Any], dict[str, Any]]] = {}
        for job in jobs[start : start + _BATCH]:
            before = snapshot(job)
            after = {**before, "calendar_lines": lines_among(said, job.calendars.split())}
            if after["calendar_lines"] == before["calendar_lines"]:
                continue
            was = known.get(job.pk) if known else None
            if was and (was.job.version, was.before, was.after) == (job.version, before, after):
                found[job.pk] = was
            else:
                new[job.pk] = job, before, after
        secrecy = secrecies([job.name for job, _, _ in new.values()])
        for pk, (job, before, after) in new.items():
            _refuse_nothing_left(job, after)
            told = told_change(before, after, secrecy[job.name])
            found[pk] = Carried(job, before, after, ToldChange.of(job.subject, *told))
    return found


def write(actor: Actor, ready: Sequence[Carried], why: Why) -> None:
    """Make each its next version, audited. In the transaction that locked the jobs, and their cursors."""
    now = timezone.now()
    for start in range(0, len(ready), _BATCH):
        some = ready[start : start + _BATCH]
        by_lines: dict[str, list[int]] = {}
        for each in some:
            by_lines.setdefault(each.lines, []).append(each.job.pk)
        for lines, keys in by_lines.items():
            rows = Job.objects.filter(pk__in=keys)
            rows.update(calendar_lines=lines, version=F("version") + 1, updated_at=now)
        # A node that knows the version before decides nothing from here on.
        version = Job.objects.filter(name=OuterRef("job")).values("version")
        JobCursor.objects.filter(job__in=[each.job.name for each in some]).update(version=Subquery(version))
    entries = record_all(actor, why.action, [each.told for each in ready], reason=why.reason)
    JobVersion.objects.bulk_create(
        (
            JobVersion(job=each.job, number=each.job.version + 1, settings=each.after, audit_seq=entry.seq)
            for each, entry in zip(ready, entries, strict=True)
        ),
        batch_size=_BATCH,
    )


def _refuse_nothing_left(job: Job, after: Mapping[str, Any]) -> None:
    try:
        refuse_nothing_left(job.name, after, after["calendar_lines"])
    except BadInput as error:
        raise BadInput(
            f"{job.name} cannot have it: {error.what}", remedy="Leave that job a time, or take it from the job first.",
            field="lines",
        ) from error  # fmt: skip
