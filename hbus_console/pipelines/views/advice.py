"""The page of what the archive advises."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from engine.core.clock import SystemClock
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.state import LakeState
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import GLOBAL, SOMEWHERE, visible_scopes
from hbus_console.access.web import actor, console_view
from hbus_console.pipelines.advice import IDLE_DAYS, archived_long, capacity, idle_topics, unread_subscriptions
from hbus_console.pipelines.series import rolled_up_ms
from hbus_console.pipelines.the_lake import lake

_clock = SystemClock()


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def advice(request: HttpRequest) -> HttpResponse:
    who, now_ms = actor(request), _clock.now_ms()
    try:
        state, damage = lake().state(), None
    except LakeDamaged as error:
        state, damage = LakeState(), error
    context = {
        "nav": "archive",
        "damage": damage,
        "idle_days": IDLE_DAYS,
        # Of what is archived for a shorter time nobody can say that nothing comes, or that all is read.
        "tells": archived_long(who, now_ms),
        "rolled_ms": rolled_up_ms(),
        "idle": [] if damage else idle_topics(who, state, now_ms),
        "unread": unread_subscriptions(who, now_ms),
        # What the whole lake weighs tells of topics that not everybody may see.
        "capacity": capacity(who, state, lake().root, now_ms) if not damage and GLOBAL in visible_scopes(who) else None,
    }
    return render(request, "pipelines/advice.html", context)
