"""The data of the charts of flow and lag."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_GET

from engine.core.clock import SystemClock
from engine.core.errors import BadInput
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE
from hbus_console.access.web import actor, console_view
from hbus_console.traffic import flow_chart
from hbus_console.ui.timerange import read_range

_clock = SystemClock()


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def flow(request: HttpRequest) -> JsonResponse:
    """The flow chart's data: all, ``?topic=``, or ``?topic=…&subscription=…``; and the page's time range."""
    return JsonResponse(flow_chart.flow_chart(actor(request), read_range(request, _clock), *_named(request)))


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def lag(request: HttpRequest) -> JsonResponse:
    """Likewise of what was not settled, as far as lag is kept."""
    return JsonResponse(flow_chart.lag_chart(actor(request), read_range(request, _clock), *_named(request)))


def _named(request: HttpRequest) -> tuple[str, str]:
    topic, subscription = request.GET.get("topic", ""), request.GET.get("subscription", "")
    if subscription and not topic:
        raise BadInput("A subscription needs its topic.", remedy="Give topic as well.", field="topic")
    return topic, subscription
