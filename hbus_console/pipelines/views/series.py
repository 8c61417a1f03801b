"""A topic's history: what was rolled up of it, and the charts' data."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from engine.core.clock import SystemClock
from hbus_console.access.acts import VIEW
from hbus_console.access.web import console_view
from hbus_console.pipelines.models import ArchivedTopic
from hbus_console.pipelines.newest_audit import newest_audit
from hbus_console.pipelines.series import rolled_up_ms, subscriptions_of
from hbus_console.pipelines.series_chart import resolution_of, series_chart
from hbus_console.pipelines.series_told import told_beside
from hbus_console.topics.pages import found_topic, frame
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.timerange import read_range, time_range

_clock = SystemClock()


@require_GET
@console_view(VIEW, resource="{topic}")
def history(request: HttpRequest, topic: str) -> HttpResponse:
    row, chosen, now_ms = found_topic(topic), time_range(request, _clock), _clock.now_ms()
    resolution, subscription = resolution_of(chosen, now_ms), request.GET.get("subscription", "")
    context = {
        **frame(request, row, "history"),
        "archived": ArchivedTopic.objects.filter(topic=row).exists(),
        "subscription": subscription,
        "told": told_beside(row.name, subscription, chosen, now_ms),
        "subscriptions": subscriptions_of(row.name, chosen.start_ms // 1000, chosen.end_ms // 1000),
        "resolution": resolution,
        "audit": newest_audit(row.name),
        "rolled_ms": rolled_up_ms(row.name),
        "long_ago_ms": now_ms - 90 * 86_400_000,
        "curl": CurlRequest("GET", f"/api/v1/archive/topics/{row.name}/series?resolution={resolution}"),
    }
    return render(request, "pipelines/history.html", context)


@require_GET
@console_view(VIEW, resource="{topic}")
def chart(request: HttpRequest, topic: str) -> JsonResponse:
    """``?what=``, ``?subscription=``, and the page's time range."""
    name, what = found_topic(topic).name, request.GET.get("what", "messages")
    subscription, chosen = request.GET.get("subscription", ""), read_range(request, _clock)
    return JsonResponse(series_chart(name, subscription, chosen, what, _clock.now_ms()))
