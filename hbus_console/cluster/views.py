"""The cluster page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from hbus_console.access.permissions import SOMEWHERE
from hbus_console.access.web import actor, console_view
from hbus_console.cluster import services
from hbus_console.cluster.feature import CLUSTER_VIEW
from hbus_console.ui.curl import CurlRequest


@require_GET
@console_view(CLUSTER_VIEW, resource=SOMEWHERE)
def overview(request: HttpRequest) -> HttpResponse:
    context = {
        "nav": "cluster",
        "cluster": services.cluster(actor(request)),
        "cluster_curl": CurlRequest("GET", reverse("v1:cluster")),
    }
    return render(request, "cluster/overview.html", context)
