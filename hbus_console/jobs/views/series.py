"""A job's history: what its runs were rolled up into, and the charts' data."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from engine.core.clock import SystemClock
from hbus_console.access.acts import VIEW
from hbus_console.access.web import actor, console_view
from hbus_console.jobs.series.chart import job_series_chart, resolution_of
from hbus_console.jobs.series.reading import rolled_up_ms
from hbus_console.jobs.services import jobs
from hbus_console.jobs.views.job import frame
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.timerange import read_range, time_range

_clock = SystemClock()


@require_GET
@console_view(VIEW, resource="{job}")
def history(request: HttpRequest, job: str) -> HttpResponse:
    row, chosen, now_ms = jobs.job(job), time_range(request, _clock), _clock.now_ms()
    resolution = resolution_of(chosen, now_ms)
    context = {
        **frame(actor(request), row),
        "resolution": resolution,
        "rolled_ms": rolled_up_ms(),
        "long_ago_ms": now_ms - 90 * 86_400_000,
        "curl": CurlRequest("GET", f"/api/v1/jobs/{row.name}/series?resolution={resolution}"),
    }
    return render(request, "jobs/history.html", context)


@require_GET
@console_view(VIEW, resource="{job}")
def chart(request: HttpRequest, job: str) -> JsonResponse:
    """``?what=``, and the page's time range."""
    name, what, chosen = jobs.job(job).name, request.GET.get("what", "runs"), read_range(request, _clock)
    return JsonResponse(job_series_chart(name, chosen, what, _clock.now_ms()))
