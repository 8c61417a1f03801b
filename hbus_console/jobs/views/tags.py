"""Tags of jobs, their limits, and how many of their runs run and wait."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, allows
from hbus_console.access.web import actor, console_view
from hbus_console.jobs.feature import JOB_LIMIT
from hbus_console.jobs.services.tags import MOST_LIMIT, set_limit, standing_tags
from hbus_console.ui import forms
from hbus_console.ui.pages import act


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def tags(request: HttpRequest) -> HttpResponse:
    who = actor(request)
    context = {"nav": "jobs", "tags": standing_tags(who), "most": MOST_LIMIT, "may_limit": allows(who, JOB_LIMIT)}
    return render(request, "jobs/tags.html", context)


@require_POST
@console_view(VIEW, post=JOB_LIMIT)
def limit(request: HttpRequest, tag: str) -> HttpResponse:
    def do() -> object:
        most = forms.whole(request.POST, "most_at_once")
        was = forms.whole(request.POST, "was") if request.POST.get("was") else None
        return set_limit(actor(request), tag, most, request.POST.get("reason", ""), was=was)

    return act(request, f"The limit of {tag} is set.", do, "jobs:tags")
