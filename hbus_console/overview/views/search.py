"""The search box: a dropdown for htmx, a page without."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE
from hbus_console.access.web import actor, console_view
from hbus_console.overview.search import find

#: Nothing that can be searched for is longer.
_LONGEST = 300


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def search(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "")[:_LONGEST]
    context = {"nav": "search", "search_text": text, "groups": find(actor(request), text)}
    inside = request.headers.get("HX-Request") == "true"
    return render(request, "overview/found.html" if inside else "overview/search.html", context)
