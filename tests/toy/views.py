from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, visible_scopes
from hbus_console.access.scopes import scopes_q
from hbus_console.access.web import actor, console_view
from hbus_console.ui.pages import act
from tests.toy import lamps as services
from tests.toy.models import Lamp


@require_http_methods(["GET", "POST"])
@console_view(VIEW, resource=SOMEWHERE)
def lamps(request: HttpRequest) -> HttpResponse:
    who = actor(request)
    if request.method == "POST":
        sent = request.POST
        return act(
            request,
            f"{sent['name']} is switched.",
            lambda: services.switch(who, sent["street"], sent["name"], sent["on"] == "1", sent["reason"]),
            "lamps:list",
        )
    rows = Lamp.objects.filter(scopes_q(visible_scopes(who), "street"))
    return render(request, "toy/lamps.html", {"nav": "lamps", "rows": rows})
