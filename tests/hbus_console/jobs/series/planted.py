"""Runs as judge and workers leave them, at chosen times."""

from __future__ import annotations

from typing import Any

from engine.cron.slots.steps import RunState
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.series.rows import JobSeriesPoint

DAY_S, HOUR_S = 86_400, 3_600
#: The second minute after ten, UTC.
AT = 1_795_860_000 // DAY_S * DAY_S + 10 * HOUR_S + 60
JOB = "close-of-day"


def planted(
    slot: int, state: RunState, *, late_ms: int | None = None, took_ms: int | None = None, **more: Any
) -> JobRun:
    """One whose slot it is; begun so late, and over so long after it began, if it did either."""
    begun_us = None if late_ms is None else slot * 1_000_000 + late_ms * 1_000
    ended_us = None
    if state not in (RunState.CLAIMED, RunState.RUNNING):
        ended_us = (begun_us or slot * 1_000_000) + (took_ms or 0) * 1_000
    times = {
        "decided_us": slot * 1_000_000,
        "begun_us": begun_us,
        "first_late_us": None if late_ms is None else late_ms * 1_000,
        "ended_us": ended_us,
        "changed_us": ended_us or begun_us or slot * 1_000_000,
    }
    return JobRun.objects.create(**{"job": JOB, "version": 1, "slot": slot, "state": state, **times, **more})


def end(run: JobRun, state: RunState, at_s: int) -> None:
    """It ends then."""
    run.state, run.ended_us, run.changed_us = state, at_s * 1_000_000, at_s * 1_000_000
    run.save()


def point(resolution: str, at: int, job: str = JOB) -> JobSeriesPoint:
    """What the series say of one span."""
    return JobSeriesPoint.objects.get(job=job, resolution=resolution, at=at)


def everything() -> list[tuple[Any, ...]]:
    """All points, without their numbers."""
    names = [each.name for each in JobSeriesPoint._meta.fields if each.name != "id"]
    return sorted(JobSeriesPoint.objects.values_list(*names), key=lambda row: row[:3])
