"""The first page, and the data of its chart."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from engine.core.clock import SystemClock
from hbus_console.accounts.middleware import actor
from hbus_console.accounts.permissions import SOMEWHERE, Action
from hbus_console.accounts.web import console_view
from hbus_console.ui import overview as content
from hbus_console.ui.timerange import time_range

_clock = SystemClock()


@require_GET
@console_view(Action.VIEW, resource=SOMEWHERE)
def overview(request: HttpRequest) -> HttpResponse:
    now_ms = _clock.now_ms()
    found = content.build(actor(request), time_range(request), now_ms)
    return render(request, "ui/overview.html", {"nav": "overview", "overview": found, "now_ms": now_ms})
