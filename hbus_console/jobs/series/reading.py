"""Series of jobs as pages and endpoints read them."""

from __future__ import annotations

from django.db.models import QuerySet

from engine.core.resolution import Resolution
from hbus_console.jobs.series.rows import JobSeriesPoint, JobsRolledUp


def rolled_up_ms() -> int:
    """When runs were rolled up last, epoch milliseconds; 0: never."""
    return JobsRolledUp.objects.values_list("at_ms", flat=True).first() or 0


def points(job: str, resolution: Resolution, start_s: int, end_s: int) -> QuerySet[JobSeriesPoint]:
    """Those that begin from one second to before another, the first first. The caller has checked that whoever asks may
    see the job."""
    found = JobSeriesPoint.objects.filter(job=job, resolution=resolution.value, at__gte=start_s, at__lt=end_s)
    return found.defer("late_bins", "took_bins").order_by("at")
