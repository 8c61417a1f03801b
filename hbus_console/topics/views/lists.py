"""The list of topics, the worst first."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, allows, visible_scopes
from hbus_console.access.web import actor, console_view
from hbus_console.teams.services import team_names
from hbus_console.topics import standing
from hbus_console.topics.feature import TOPIC_EDIT
from hbus_console.topics.models import Topic
from hbus_console.ui.pages import clock
from hbus_console.ui.rows import NOBODY, page_of, read_filters
from hbus_console.ui.timerange import time_range


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def topics(request: HttpRequest) -> HttpResponse:
    who, wanted = actor(request), read_filters(standing.TopicFilters, request.GET)
    rows = standing.topic_rows(who, time_range(request), clock.now_ms(), wanted)
    names = [row.topic.name for row in rows]
    shown, more = page_of(rows, names, request.GET.get("cursor", ""))
    context = {
        "nav": "topics",
        "rows": shown,
        "found": len(rows),
        "next_cursor": more,
        "wanted": wanted,
        "teams": team_names(),
        "classes": Topic.Classification.values,
        "nobody": NOBODY,
        "dead": sum(1 for row in rows if row.dead),
        "letters_known": all(row.dead_of.known for row in rows),
        "ownerless": sum(1 for row in rows if row.topic.team_id is None),
        "held": sum(1 for row in rows if row.topic.paused),
        "may_create": allows(who, TOPIC_EDIT, SOMEWHERE),
        "scopes": visible_scopes(who),
    }
    return render(request, "topics/list.html", context)
