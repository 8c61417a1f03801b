"""What one tenant used over a time, and the chart's data."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from engine.core.clock import SystemClock
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE
from hbus_console.access.web import actor, console_view
from hbus_console.quotas.sight import plans_seen
from hbus_console.quotas.tenant_series import TenantPoint, tenant_named, tenant_points, tenant_reach, tenant_resolution
from hbus_console.quotas.use_chart import BOOKED_S
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.series_lines import SeriesLine, drawn
from hbus_console.ui.spans import steps_of
from hbus_console.ui.timerange import read_range, time_range

_clock = SystemClock()
_LINES: tuple[SeriesLine[TenantPoint], ...] = (
    SeriesLine("admitted", "accent", lambda point: point.admitted, 0, area=True),
    SeriesLine("refused", "bad", lambda point: point.refused, 0),
    SeriesLine("delayed", "warn", lambda point: point.delayed, 0, quiet=True),
    SeriesLine("only counted as refused", "neutral", lambda point: point.shadowed, 0, quiet=True),
)


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def tenant(request: HttpRequest, tenant: str) -> HttpResponse:
    who, chosen, known = actor(request), time_range(request, _clock), tenant_reach(_clock.now_ms())
    tenant_named(tenant)
    resolution = tenant_resolution(chosen.start_ms // 1000, chosen.end_ms // 1000, known)
    since = known.since(resolution)
    context = {
        "nav": "quotas",
        "tenant": tenant,
        "plan": plans_seen(who).filter(tenant=tenant).values_list("plan", flat=True).first(),
        "resolution": resolution,
        "since_ms": since * 1_000 if since > chosen.start_ms // 1000 else 0,
        "long_ago_ms": _clock.now_ms() - 90 * 86_400_000,
        "chart_url": f"{reverse('quotas:tenant-chart')}?{urlencode({'tenant': tenant})}",
        "curl": CurlRequest("GET", f"/api/v1/quota/tenants/{tenant}/series?resolution={resolution}"),
    }
    return render(request, "quotas/tenant.html", context)


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def chart(request: HttpRequest) -> JsonResponse:
    """``?tenant=``, and the page's time range. The span that goes on is left out, and what is not kept."""
    name, chosen, now_ms = tenant_named(request.GET.get("tenant", "")), read_range(request, _clock), _clock.now_ms()
    known, start_s = tenant_reach(now_ms), chosen.start_ms // 1000
    resolution = tenant_resolution(start_s, chosen.end_ms // 1000, known)
    upto_s = min(chosen.end_ms // 1000, now_ms // 1000 - BOOKED_S) // resolution.seconds * resolution.seconds
    steps = steps_of(max(start_s, known.since(resolution)), upto_s, resolution)
    found = {point.at: point for point in tenant_points(actor(request), name, resolution, steps, known)}
    return JsonResponse(drawn(_LINES, steps, found, ""))
