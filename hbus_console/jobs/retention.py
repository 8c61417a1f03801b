"""Keeps runs and their logs bounded: those of some months, the newest of all, and a few of each job for ever."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from engine.core.clock import Clock, SystemClock
from hbus_console.jobs.models import JobAttempt, JobRun, LogPiece
from hbus_console.jobs.recent import newest_runs
from hbus_console.jobs.run_progress import RunProgress
from hbus_console.jobs.series.rolling import roll_up_runs, span_of

#: Of each job so many runs are kept, however old they are: what a yearly one did last is not forgotten.
KEPT_OF_EACH = 50
#: Rows that are looked at in one transaction.
BATCH = 2_000
#: A tick hands control back after so many seconds, even with work left.
TICK_S = 5.0
_DAY_US = 86_400_000_000


class RunRetention:
    """A duty. A run that has not ended is never removed, and a slot that was decided stays so: cursors are past it."""

    name = "run-retention"
    interval_s = 60.0

    def __init__(self, most: int, days: int, *, clock: Clock | None = None) -> None:
        self._most = most
        self._days = days
        self._clock = clock or SystemClock()
        #: Up to which row was looked; what was kept there is not looked at again before the next round.
        self._after = 0

    def tick(self) -> None:
        """One round, or as much of it as fits into about :data:`TICK_S` seconds; the next tick goes on."""
        started = self._clock.monotonic()
        while self._step():
            if self._clock.monotonic() - started > TICK_S:
                return
        self._after = 0

    def _step(self) -> bool:
        """Whether there is more of this round."""
        newest = JobRun.objects.aggregate(newest=Max("pk"))["newest"] or 0
        old_us = self._clock.now_ms() * 1_000 - self._days * _DAY_US
        rows = list(
            JobRun.objects.filter(pk__gt=self._after)
            .order_by("pk")
            .only("pk", "job", "slot", "ended_us", "changed_us")[:BATCH]
        )
        # In the order of their rows, runs are in that of time, nearly: one that is young ends the round.
        over = [row for row in rows if row.pk <= newest - self._most or row.changed_us < old_us]
        self._remove([row for row in over if row.ended_us is not None])
        if not over or len(over) < len(rows) or len(rows) < BATCH:
            return False
        self._after = rows[-1].pk
        return True

    def _remove(self, rows: list[JobRun]) -> None:
        kept = newest_runs(sorted({row.job for row in rows}), KEPT_OF_EACH)
        oldest = {job: (runs[-1].slot, runs[-1].pk) for job, runs in kept.items() if len(runs) == KEPT_OF_EACH}
        old = [row for row in rows if row.job in oldest and (row.slot, row.pk) < oldest[row.job]]
        # Once these end, their minutes are counted anew, from all their runs.
        waiting = {span_of(run) for run in JobRun.objects.filter(job__in=oldest, ended_us=None).only("job", "slot")}
        going = [row for row in old if span_of(row) not in waiting]
        if not going:
            return
        roll_up_runs(going)
        gone = [row.pk for row in going]
        # The logs first: of a run that is there, it can be said that its log is gone.
        LogPiece.objects.filter(run__in=gone).delete()
        RunProgress.objects.filter(run__in=gone).delete()
        with transaction.atomic():
            JobAttempt.objects.filter(run__in=gone).delete()
            JobRun.objects.filter(pk__in=gone).delete()


def run_retention() -> RunRetention:
    """The duty of the keeper."""
    return RunRetention(settings.HBUS_RUN_MAX, settings.HBUS_RUN_DAYS)
