"""The list of subscriptions across topics, the worst first."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE
from hbus_console.access.web import actor, console_view
from hbus_console.subscriptions import standing
from hbus_console.teams.services import team_names
from hbus_console.traffic.standing import Backlog
from hbus_console.ui.pages import clock
from hbus_console.ui.rows import NOBODY, page_of, read_filters
from hbus_console.ui.timerange import time_range


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def subscriptions(request: HttpRequest) -> HttpResponse:
    who, wanted = actor(request), read_filters(standing.SubscriptionFilters, request.GET)
    rows = standing.subscription_rows(who, time_range(request), clock.now_ms(), wanted)
    names = [f"{row.subscription.topic.name}/{row.subscription.group}" for row in rows]
    unknown = [row for row in rows if row.state == "unknown"]
    shown, more = page_of(rows, names, request.GET.get("cursor", ""))
    context = {
        "nav": "subscriptions",
        "rows": shown,
        "found": len(rows),
        "next_cursor": more,
        "wanted": wanted,
        "teams": team_names(),
        "nobody": NOBODY,
        "states": standing.STATES,
        "dead": sum(1 for row in rows if row.dead),
        "held": sum(1 for row in rows if row.held),
        "unknown": len(unknown),
        "since": Backlog.of(row.lag for row in unknown).unasked,
        "alone": sum(1 for row in rows if row.state == "no consumer"),
        "broken": sum(1 for row in rows if row.state.startswith("breaker ")),
        "parked": sum(1 for row in rows if row.state == "keys parked"),
        "unhandled": sum(1 for row in rows if row.state == "no handler"),
        "retrying": sum(1 for row in rows if row.state == "retrying"),
        "behind": sum(1 for row in rows if row.behind),
        # Whatever a state may ever be called: one that is not active does not keep up.
        "well": all(row.state == "active" and not row.dead and row.dead_of.known for row in rows),
    }
    return render(request, "subscriptions/list.html", context)
