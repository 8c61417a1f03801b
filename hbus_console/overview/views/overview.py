"""The first page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from engine.core.clock import SystemClock
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, allows
from hbus_console.accounts.middleware import actor
from hbus_console.accounts.web import console_view
from hbus_console.cluster import probes, services
from hbus_console.overview import concerns as attention
from hbus_console.overview import content
from hbus_console.publishing.feature import PUBLISH
from hbus_console.ui import examples
from hbus_console.ui.timerange import time_range

_clock = SystemClock()


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
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
        "may_publish": allows(who, PUBLISH, SOMEWHERE),
        "examples": examples.offered(who) if not found.topics else [],
    }
    return render(request, "overview/overview.html", context)
