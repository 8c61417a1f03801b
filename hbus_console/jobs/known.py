"""Jobs as the nodes know them: compiled from their rows, and followed as they change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import structlog

from engine.core.error_text import text_of
from engine.core.errors import HbusError
from engine.cron.exclusions import Exclusions, compile_exclusions, kept
from engine.cron.expression import FoldPolicy, GapPolicy, Schedule, Slot, compile_schedule
from engine.cron.slots.job import AfterFailure, AfterLoss, CatchUp, CronJob, JobPolicy, Overlap
from engine.cron.slots.node import Changed
from hbus_console.jobs.calendars import left_out
from hbus_console.jobs.columns import Division, ManualRuns, OverlapOn
from hbus_console.jobs.judge import asked
from hbus_console.jobs.models import FormerJob, Job, JobCursor, JobVersion

#: So many entries before the newest known are asked for again: one that was committed late may have a smaller number
#: than one that was committed before it.
LOOK_BACK = 200
#: Names in one question.
_CHUNK = 500

_log = structlog.get_logger(__name__)


def policy_of(row: Job) -> JobPolicy:
    """How it treats what does not go as planned."""
    return JobPolicy(
        grace_s=row.grace_s,
        # A slot that came while nobody decided is waited for all the same: it is run whether we look or not.
        catch_up=CatchUp.ALL if row.elsewhere else CatchUp(row.catch_up),
        catch_up_window_s=row.catch_up_window_s,
        catch_up_most=row.catch_up_most,
        overlap=Overlap(row.overlap),
        most_at_once=row.most_at_once,
        lease_s=row.lease_s,
        after_loss=AfterLoss(row.after_loss),
        after_failure=AfterFailure(row.after_failure),
        attempts=row.attempts,
        backoff_s=row.backoff_s,
        backoff_most_s=row.backoff_most_s,
        jitter_s=row.jitter_s,
        binds_manual=row.manual_runs == ManualRuns.BOUND,
        per_node=row.overlap_on == OverlapOn.NODE,
        tags=tuple(row.tags.split()),
        shards=row.shards,
        on_nodes=row.division == Division.NODES,
        elsewhere=row.elsewhere,
        timeout_s=row.timeout_s if row.elsewhere else 0,
    )


def cron_job(row: Job) -> CronJob:
    """Raises ``BadInput`` for a schedule or a zone that cannot be read (any more)."""
    return CronJob(row.name, row.version, schedule_of(row), policy_of(row), row.held, exclusions_of(row))


def schedule_of(row: Job) -> Schedule:
    """When it runs; raises as :func:`cron_job`."""
    return _schedule_by(row.schedule, row.zone, row.gap, row.fold, row.name)


def schedule_said(job: str, said: Mapping[str, Any]) -> Schedule:
    """When a job of that name runs by the settings of a version, or of a draft; raises likewise."""
    return _schedule_by(said["schedule"], said["zone"], said["gap"], said["fold"], job)


def exclusions_of(row: Job) -> Exclusions | None:
    """When nothing of it runs; raises as :func:`cron_job`."""
    lines = left_out(row.excluded, row.calendar_lines)
    return exclusions_said(lines, schedule_of(row).zone) if lines else None


def coming(row: Job, after: int) -> Iterator[Slot]:
    """Its slots after the instant ``after`` that are not left out; raises likewise."""
    return kept(schedule_of(row), exclusions_of(row), after)


# Those of one calendar and one zone are the same for many jobs.
exclusions_said = lru_cache(1024)(compile_exclusions)


def _schedule_by(spec: str, zone: str, gap: str, fold: str, job: str) -> Schedule:
    # One that spreads by the job's name is that job's alone.
    return _schedule(spec, zone, gap, fold, job if "H" in spec.upper() else "")


# Many jobs share few schedules, which are the larger part of what a node holds of a job.
@lru_cache(4096)
def _schedule(spec: str, zone: str, gap: str, fold: str, job: str) -> Schedule:
    return compile_schedule(spec, zone_name=zone, gap=GapPolicy(gap), fold=FoldPolicy(fold), job=job)


class KnownJobs:
    """What has changed since it was last asked. Not thread-safe: it belongs to one node."""

    def __init__(self) -> None:
        #: The newest entry of the history that was read, and which version of each job was told.
        self._newest = 0
        #: The newest deletion that was read.
        self._newest_gone = 0
        self._told: dict[str, int] = {}
        #: Jobs that cannot be scheduled as they are, and why.
        self.unreadable: dict[str, str] = {}

    def changes(self) -> Iterator[Changed]:
        """All jobs at first, then those that have another version or are gone.

        Raises ``Unavailable`` when the database is away.
        """
        with asked():
            yield from self._gone()
            # Before the jobs are read: what changes meanwhile is found the next time.
            newest = JobVersion.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
            names = self._changed(newest)
            for start in range(0, len(names), _CHUNK):
                yield from self._read(names[start : start + _CHUNK])
            self._newest = newest

    def _gone(self) -> Iterator[Changed]:
        deleted = FormerJob.objects.filter(pk__gt=self._newest_gone - LOOK_BACK).order_by("pk")
        for number, name, version in deleted.values_list("pk", "name", "version"):
            self._newest_gone = max(self._newest_gone, number)
            # One that was made anew since has a later version.
            if self._told.get(name, version + 1) <= version:
                del self._told[name]
                self.unreadable.pop(name, None)
                yield Changed(name, None)

    def _changed(self, newest: int) -> list[str]:
        if not self._newest:
            return list(Job.objects.values_list("name", flat=True))
        recent = JobVersion.objects.filter(pk__gt=self._newest - LOOK_BACK, pk__lte=newest)
        found = dict(recent.order_by("pk").values_list("job__name", "number"))
        return [name for name, number in found.items() if self._told.get(name) != number]

    def _read(self, names: list[str]) -> Iterator[Changed]:
        cursors = {row.job: row for row in JobCursor.objects.filter(job__in=names)}
        for row in Job.objects.filter(name__in=names):
            cursor = cursors.get(row.name)
            # Written by one transaction: where they differ, it was committed between the two questions.
            if cursor is None or cursor.version != row.version:
                continue
            self._told[row.name] = row.version
            self.unreadable.pop(row.name, None)
            try:
                yield Changed(row.name, cron_job(row), cursor.at)
            except HbusError as error:
                self.unreadable[row.name] = text_of(error)
                _log.error("a job cannot be scheduled", job=row.name, version=row.version, error=text_of(error))
                yield Changed(row.name, None)
