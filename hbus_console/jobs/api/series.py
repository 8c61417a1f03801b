"""Series of jobs over HTTP."""

from __future__ import annotations

import msgspec
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.clock import SystemClock, to_rfc3339
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import require
from hbus_console.api.answers import answers, fields_of, plain
from hbus_console.api.series import SPANS, asked_spans
from hbus_console.api.views import ApiView
from hbus_console.jobs.series.reading import points, rolled_up_ms
from hbus_console.jobs.series.rows import JobSeriesPoint
from hbus_console.ui.spans import resolution_for

_clock = SystemClock()


class JobSeriesPointOut(msgspec.Struct):
    """What became of the runs whose slots lie in one span, which begins at ``at``: each is over in one of the six ways
    from ``done`` to ``cancelled``, or ``open``. ``retried`` are attempts beyond the first of each run. ``late_…`` is
    how long after it was to begin a run's first attempt did, the others how long the last attempt of one that is over
    took; null: there is none."""

    at: str
    runs: int
    begun: int
    done: int
    failed: int
    skipped: int
    lost: int
    abandoned: int
    cancelled: int
    open: int
    retried: int
    late_p50_ms: float | None
    late_p99_ms: float | None
    late_longest_ms: float | None
    p50_ms: float | None
    p99_ms: float | None
    longest_ms: float | None


class JobSeriesOut(msgspec.Struct):
    """A span in which no slot lies has no point, and what is after ``rolled_up_at`` is not known yet; null: nothing
    is."""

    job: str
    resolution: str
    rolled_up_at: str | None
    points: list[JobSeriesPointOut]


class SeriesOfJob(ApiView):
    @extend_schema(
        operation_id="jobs_series",
        summary="What became of the runs of a job by the minute, hour or day",
        description="Of 2,000 spans at most. The resolution is the finest that is kept of the time, unless said. Also "
        "of a job that was deleted: its series are kept.",
        tags=["jobs"],
        parameters=SPANS,
        responses=answers(JobSeriesOut),
    )
    def get(self, request: Request, job: str) -> Response:
        require(self.actor, VIEW, job)
        now_s = _clock.now_ms() // 1000
        resolution, steps = asked_spans(request, lambda start_s, end_s: resolution_for(start_s, end_s, now_s), _clock)
        rolled_ms = rolled_up_ms()
        out = JobSeriesOut(
            job=job,
            resolution=resolution.value,
            rolled_up_at=to_rfc3339(rolled_ms) if rolled_ms else None,
            points=[_point(each) for each in points(job, resolution, steps.start, steps.stop)],
        )
        return Response(plain(out))


def _point(point: JobSeriesPoint) -> JobSeriesPointOut:
    return JobSeriesPointOut(at=to_rfc3339(point.at * 1000), **fields_of(point, JobSeriesPointOut, "at"))
