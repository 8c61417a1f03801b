"""Teams: who answers for what, and where they are reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from engine.core.errors import BadInput
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import GLOBAL, SOMEWHERE, allows
from hbus_console.access.web import actor, console_view
from hbus_console.drafts.setting import Setting
from hbus_console.registry.declaration import MenuEntry
from hbus_console.teams import owned, services
from hbus_console.teams.feature import TEAM_EDIT
from hbus_console.teams.services import SETTINGS, TeamDraft
from hbus_console.ui import menu
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.formats import listed
from hbus_console.ui.pages import form_page, tell_done


@require_http_methods(["GET", "POST"])
@console_view(VIEW, resource=SOMEWHERE)
def teams(request: HttpRequest) -> HttpResponse:
    who = actor(request)
    may_edit = allows(who, TEAM_EDIT, GLOBAL)
    sent = request.POST.dict() if request.POST.get("act") == "create" else {}
    home = _home()
    # Whatever the reader may not see of it counts too: a team that holds anything stays.
    free = owned.free() if may_edit else set()
    page: dict[str, Any] = {
        "nav": home.key if home else "",
        "home": home,
        "owned_words": listed(it.relation for it in owned.kinds()),
        "teams": [
            (team, holdings, _asked(SETTINGS.snapshot(team)), team.pk in free)
            for team, holdings in owned.teams_with_holdings(who)
        ],
        "asked": _asked(sent),
        "may_edit": may_edit,
        "kinds": [it.relation for it in owned.kinds()],
        "unowned": owned.unowned(who),
        "create_curl": CurlRequest("POST", "/api/v1/teams", {"name": "Front desk", "contact": "#front-desk"}),
    }
    if request.method == "GET":
        return form_page(request, "teams/list.html", page)
    reason = request.POST.get("reason", "")
    values = SETTINGS.typed(request.POST, SETTINGS.changeable)
    team = request.POST.get("team", "")
    try:
        match request.POST.get("act", ""):
            case "create":
                services.create_team(who, TeamDraft(**values), reason)
                said = f"{values['name']} can now own {page['owned_words']}."
            case "change":
                services.change_team(who, team, values, reason)
                said = f"{values['name']} is reached at {values['contact']}."
            case "delete":
                services.delete_team(who, team, reason)
                said = f"{team} is gone."
            case other:
                raise BadInput(f"There is no act {other!r}.", remedy="Use the buttons of the page.", field="act")
    except BadInput as refused:
        return form_page(request, "teams/list.html", page, refused, SETTINGS.labels)
    tell_done(request, said)
    return redirect("teams:list")


def _home() -> MenuEntry | None:
    """The entry of the menu under which the page stands: the list of what teams own first."""
    lists = [it.url_name for it in owned.kinds()]
    found = [entry for _, group in menu.entries() for entry in group if entry.url_name in lists]
    return min(found, key=lambda entry: lists.index(entry.url_name), default=None)


def _asked(values: Mapping[str, Any]) -> list[tuple[Setting, Any]]:
    """What a sheet asks for, each with what it holds."""
    return [(each, values.get(each.name, "")) for each in SETTINGS.each.values()]
