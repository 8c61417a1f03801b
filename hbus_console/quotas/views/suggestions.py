"""What fields for a policy, and for a plan, suggest."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor
from hbus_console.access.web import actor, console_view
from hbus_console.quotas.suggesting import Options, plans_like, policies_like
from hbus_console.ui.forms import text


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def policies(request: HttpRequest) -> HttpResponse:
    return _options(request, policies_like, "policy")


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def plans(request: HttpRequest) -> HttpResponse:
    return _options(request, plans_like, "plan")


def _options(request: HttpRequest, like: Callable[[Actor, str], Options], name: str) -> HttpResponse:
    return render(request, "components/options.html", {"options": like(actor(request), text(request.GET, name))})
