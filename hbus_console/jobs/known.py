"""Jobs as the nodes know them: compiled from their rows, and followed as they change."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

import structlog

from engine.core.error_text import text_of
from engine.core.errors import HbusError
from engine.cron.exclusions import Exclusions, compile_exclusions
from engine.cron.expression import FoldPolicy, GapPolicy, Schedule, Slot, compile_schedule
from engine.cron.slots.job import AfterFailure, AfterLoss, CatchUp, CronJob, JobPolicy, Overlap
from engine.cron.slots.node import Changed
from hbus_console.jobs.following import held_by
from hbus_console.jobs.judge import asked
from hbus_console.jobs.kinds.names import WorkName
from hbus_console.jobs.models import Division, Job, JobCursor, JobVersion, ManualRuns, OverlapOn

#: So many entries before the newest known are asked for again: one that was committed late may have a smaller number
#: than one that was committed before it.
LOOK_BACK = 200
#: Slots that are looked at for those that are not left out.
MOST_LOOKED_AT = 50_000
#: Names in one question.
_CHUNK = 500

_log = structlog.get_logger(__name__)


def policy_of(row: Job) -> JobPolicy:
    """How it treats what does not go as planned."""
    elsewhere = row.kind == WorkName.ELSEWHERE
    return JobPolicy(
        grace_s=row.grace_s,
        # A slot that came while nobody decided is waited for all the same: it is run whether we look or not.
        catch_up=CatchUp.ALL if elsewhere else CatchUp(row.catch_up),
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
        elsewhere=elsewhere,
        timeout_s=row.timeout_s if elsewhere else 0,
    )


def cron_job(row: Job) -> CronJob:
    """Raises ``BadInput`` for a schedule or a zone that cannot be read (any more)."""
    return CronJob(row.name, row.version, schedule_of(row), policy_of(row), held_by(row), exclusions_of(row))


def schedule_of(row: Job) -> Schedule:
    """When it runs; raises as :func:`cron_job`."""
    # One that spreads by the job's name is that job's alone.
    by = row.name if "H" in row.schedule.upper() else ""
    return _schedule(row.schedule, row.zone, row.gap, row.fold, by)


def exclusions_of(row: Job) -> Exclusions | None:
    """When nothing of it runs; raises as :func:`cron_job`."""
    return _exclusions(row.excluded, schedule_of(row).zone) if row.excluded else None


def coming(row: Job, after: int, most: int = MOST_LOOKED_AT) -> Iterator[Slot]:
    """Its slots after the instant ``after`` that are not left out, among the next ``most``; raises likewise."""
    left_out = exclusions_of(row)
    slots = islice(schedule_of(row).slots(after), most)
    return slots if left_out is None else (slot for slot in slots if not left_out.why(slot.at))


_exclusions = lru_cache(1024)(compile_exclusions)


# Many jobs share few schedules, which are the larger part of what a node holds of a job.
@lru_cache(4096)
def _schedule(spec: str, zone: str, gap: str, fold: str, job: str) -> Schedule:
    return compile_schedule(spec, zone_name=zone, gap=GapPolicy(gap), fold=FoldPolicy(fold), job=job)


class KnownJobs:
    """What has changed since it was last asked. Not thread-safe: it belongs to one node."""

    def __init__(self) -> None:
        #: The newest entry of the history that was read, and which version of each job was told.
        self._newest = 0
        self._told: dict[str, int] = {}
        #: Jobs that cannot be scheduled as they are, and why.
        self.unreadable: dict[str, str] = {}

    def changes(self) -> Iterator[Changed]:
        """All jobs at first, then those with another version. Raises ``Unavailable`` when the database is away.

        A job that is deleted is not among them: its cursor is gone, and a node finds that.
        """
        with asked():
            # Before the jobs are read: what changes meanwhile is found the next time.
            newest = JobVersion.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
            names = self._changed(newest)
            for start in range(0, len(names), _CHUNK):
                yield from self._read(names[start : start + _CHUNK])
            self._newest = newest

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
