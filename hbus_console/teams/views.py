"""Teams: who answers for what, and where they are reached."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from engine.core.errors import BadInput
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import GLOBAL, SOMEWHERE, allows
from hbus_console.access.web import actor, console_view
from hbus_console.teams import owned, services
from hbus_console.teams.feature import TEAM_EDIT
from hbus_console.teams.services import TeamDraft
from hbus_console.ui import forms
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.pages import form_page


@require_http_methods(["GET", "POST"])
@console_view(VIEW, resource=SOMEWHERE)
def teams(request: HttpRequest) -> HttpResponse:
    who = actor(request)
    found, may_edit = owned.teams_with_holdings(who), allows(who, TEAM_EDIT, GLOBAL)
    page: dict[str, Any] = {
        "nav": "topics",
        "teams": found,
        # Whatever the reader may not see of it counts too: a team that holds anything stays.
        "free": owned.free() if may_edit else set(),
        "may_edit": may_edit,
        "kinds": [it.relation for it in owned.kinds()],
        "unowned": owned.unowned(who),
        "sent": request.POST.dict() if request.method == "POST" else {},
        "create_curl": CurlRequest("POST", "/api/v1/teams", {"name": "Front desk", "contact": "#front-desk"}),
    }
    if request.method == "GET":
        return form_page(request, "teams/list.html", page)
    reason = request.POST.get("reason", "")
    name, contact = forms.text(request.POST, "name"), forms.text(request.POST, "contact")
    team = request.POST.get("team", "")
    try:
        match request.POST.get("act", ""):
            case "create":
                services.create_team(who, TeamDraft(name, contact), reason)
                said = f"{name} can now own topics and subscriptions."
            case "change":
                services.change_team(who, team, new_name=name, contact=contact, reason=reason)
                said = f"{name} is reached at {contact}."
            case "delete":
                services.delete_team(who, team, reason)
                said = f"{team} is gone."
            case other:
                raise BadInput(f"There is no act {other!r}.", remedy="Use the buttons of the page.", field="act")
    except BadInput as refused:
        return form_page(request, "teams/list.html", page, refused)
    messages.success(request, said)
    return redirect("teams:list")
