"""The first page, and the data of its chart."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from engine.core.clock import SystemClock
from engine.core.errors import BadInput
from hbus_console.accounts.middleware import actor
from hbus_console.accounts.permissions import SOMEWHERE, Action, allows
from hbus_console.accounts.web import console_view
from hbus_console.cluster import probes, services
from hbus_console.ui import attention, examples, flow_chart
from hbus_console.ui import overview as content
from hbus_console.ui.timerange import read_range, time_range

_clock = SystemClock()


@require_GET
@console_view(Action.VIEW, resource=SOMEWHERE)
def overview(request: HttpRequest) -> HttpResponse:
    who, now_ms = actor(request), _clock.now_ms()
    found = content.build(who, time_range(request), now_ms)
    store = probes.store_state()
    nodes, _ = services.living(_clock)
    context = {
        "nav": "overview",
        "overview": found,
        "concerns": attention.concerns(
            who, now_ms, store, nodes, found.standing.lag.values(), alerts=found.standing.alerts
        ),
        "roles": services.roles(nodes, store, probes.database_states()),
        "may_publish": allows(who, Action.PUBLISH, SOMEWHERE),
        "examples": examples.offered(who) if not found.topics else [],
    }
    return render(request, "ui/overview.html", context)


@require_GET
@console_view(Action.VIEW, resource=SOMEWHERE)
def flow(request: HttpRequest) -> JsonResponse:
    """The flow chart's data: all, ``?topic=``, or ``?topic=…&subscription=…``; and the page's time range."""
    topic, subscription = request.GET.get("topic", ""), request.GET.get("subscription", "")
    if subscription and not topic:
        raise BadInput("A subscription needs its topic.", remedy="Give topic as well.", field="topic")
    return JsonResponse(flow_chart.flow_chart(actor(request), read_range(request, _clock), topic, subscription))
