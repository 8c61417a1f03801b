"""The first page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from engine.core.clock import SystemClock
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, allows
from hbus_console.access.web import actor, console_view
from hbus_console.cluster import probes, services
from hbus_console.cluster.concerns import nodes, store
from hbus_console.overview import content, examples
from hbus_console.overview.concerns import concerns
from hbus_console.publishing.feature import PUBLISH
from hbus_console.ui.concern import Look
from hbus_console.ui.timerange import time_range

_clock = SystemClock()


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def overview(request: HttpRequest) -> HttpResponse:
    who = actor(request)
    look = Look(who, _clock.now_ms())
    found = content.build(look, time_range(request))
    roles_of = services.told_amounts(who, look.once(store), probes.database_states())
    context = {
        "nav": "overview",
        "overview": found,
        "concerns": concerns(look),
        "roles": services.roles(look.once(nodes), *roles_of, look.scopes),
        "may_publish": allows(who, PUBLISH, SOMEWHERE),
        "examples": examples.offered(who) if not found.topics else [],
    }
    return render(request, "overview/overview.html", context)
