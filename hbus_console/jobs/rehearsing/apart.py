"""Sets jobs apart, so that the nodes of the installation leave them alone while they are played, and afterwards.

Their jobs are paused, which is a version of its own, and for the time of the play their cursors stay under the version
before: who knows another version than the cursor's decides nothing, and a node takes up no job whose cursor has
another version than the job. So the play alone decides, by the rules that hold for everybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.db import transaction

from engine.core.errors import BadInput
from engine.cron.slots.job import CronJob, Slots
from hbus_console.access.permissions import Actor
from hbus_console.jobs import as_code
from hbus_console.jobs.judge import database_time
from hbus_console.jobs.known import cron_job
from hbus_console.jobs.models import Job, JobCursor
from hbus_console.jobs.services.draft import JobDraft, snapshot
from hbus_console.jobs.services.jobs import pause_job, resume_job


@dataclass(frozen=True, slots=True)
class PlayedSpan:
    """From a second up to another, which is not part of it."""

    begin_s: int
    end_s: int


@dataclass(frozen=True, slots=True)
class _Within:
    slots: Slots
    end_s: int

    def next_after(self, at: int) -> int | None:
        found = self.slots.next_after(at)
        return found if found is not None and found < self.end_s else None


@transaction.atomic
def set_apart(actor: Actor, drafts: Sequence[JobDraft], span: PlayedSpan, why: str) -> list[CronJob]:
    """Make the jobs what the drafts say, paused for ``why``, their cursors at the begin of ``span``.

    They are given as the play is to know them. Raises what the services of jobs raise, and leaves nothing then; and
    ``BadInput`` for a span that is not over.
    """
    if span.end_s > database_time():
        raise BadInput("That span is not over.", remedy="Play one that has passed: slots come by the store's clock.")
    for planned in as_code.plan(actor, drafts):
        as_code.apply(actor, planned, why)
    return [_set_apart(actor, draft.name, span, why) for draft in drafts]


@transaction.atomic
def give_back(jobs: Sequence[CronJob]) -> None:
    """They are paused jobs as any other from now on."""
    now_s = int(database_time())
    for row in Job.objects.filter(name__in=[job.name for job in jobs]):
        JobCursor.objects.filter(job=row.name).update(version=row.version, at=now_s)


def _set_apart(actor: Actor, name: str, span: PlayedSpan, why: str) -> CronJob:
    row = Job.objects.get(name=name)
    if row.paused and not _is_pause(row):
        row = resume_job(actor, name, why)
    if not row.paused:
        row = pause_job(actor, name, why)
    played = row.version - 1
    JobCursor.objects.update_or_create(job=name, defaults={"version": played, "at": span.begin_s - 1})
    known = cron_job(row)
    return replace(known, version=played, slots=_Within(known.slots, span.end_s), held="")


def _is_pause(row: Job) -> bool:
    """Whether its last version differs from the one before by nothing but the pause."""
    before = row.versions.filter(number=row.version - 1).first()
    return before is not None and _but_pause(before.settings) == _but_pause(snapshot(row))


def _but_pause(settings: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in settings.items() if name != "paused"}
