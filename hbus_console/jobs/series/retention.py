"""The retention of the series of jobs."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Subquery

from engine.core.clock import Clock
from hbus_console.evidence.series_retention import SeriesRetention
from hbus_console.jobs.series.rows import JobSeriesPoint, JobsRolledUp


def job_series_retention(*, clock: Clock | None = None) -> SeriesRetention:
    """The duty of the keeper. A point stays for as long as a run of it is open, or a change is looked at again: what
    its hour and its day are put right by is the difference to it."""
    reached = Subquery(JobsRolledUp.objects.values("changed_us")[:1])
    return SeriesRetention(
        "job-series-retention",
        JobSeriesPoint.objects.filter(open=0, changed_us__lte=reached),
        settings.HBUS_SERIES_MINUTE_DAYS,
        settings.HBUS_SERIES_HOUR_DAYS,
        clock=clock,
    )
