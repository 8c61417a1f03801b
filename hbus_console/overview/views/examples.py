"""The button of an empty console."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from hbus_console.access.web import actor, console_view
from hbus_console.cluster.feature import CLUSTER_OPERATE
from hbus_console.overview import examples


@require_POST
@console_view(CLUSTER_OPERATE)
def start(request: HttpRequest, name: str) -> HttpResponse:
    example = examples.start(actor(request), name)
    messages.success(request, f"{example.title} has been started. What it does appears here as it happens.")
    return redirect("overview:overview")
