"""A new policy, and the settings of one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from engine.core.errors import BadInput
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, visible_scopes
from hbus_console.access.web import FORM_KEPT, FORM_MARK, actor, console_view
from hbus_console.quotas.feature import QUOTA_EDIT
from hbus_console.quotas.foreseeing import preview
from hbus_console.quotas.services.draft import AMOUNT, COVERS, SETTINGS, SHARING, TRIAL, PolicyDraft, snapshot
from hbus_console.quotas.services.policies import change_policy, create_policy
from hbus_console.quotas.sight import policy_seen
from hbus_console.quotas.views.policy import frame
from hbus_console.teams.services import team_names
from hbus_console.ui.forms import revision, text
from hbus_console.ui.pages import clock, form_page

_PARTS = {
    "covers": SETTINGS.part(COVERS),
    "amount": SETTINGS.part(AMOUNT),
    "sharing": SETTINGS.part(SHARING),
    "trial": SETTINGS.part(TRIAL),
}


@require_http_methods(["GET", "POST"])
@console_view(QUOTA_EDIT)
def new(request: HttpRequest) -> HttpResponse:
    page: dict[str, Any] = {
        "nav": "quotas",
        **_PARTS,
        "teams": team_names(),
        "values": {**asdict(PolicyDraft("", "", 0.0)), "limit": "", "burst": ""},
        "may_edit": True,
    }
    if request.method == "GET":
        return form_page(request, "quotas/form.html", page)
    values = SETTINGS.typed(request.POST, SETTINGS.changeable)
    name, reason = text(request.POST, "name"), request.POST.get("reason", "")
    # A burst that nobody gives is a second of the limit.
    if values.get("burst") == "":
        values["burst"] = values["limit"] if isinstance(values["limit"], float | int) else 0.0
    page["values"] = {**page["values"], **values, "name": name, "reason": reason}
    if "preview" in request.POST:
        return _previewed(request, page)
    try:
        made = create_policy(actor(request), PolicyDraft(**{**values, "name": name}), reason)
    except BadInput as refused:
        return form_page(request, "quotas/form.html", page, refused)
    messages.success(request, f"{made.name} is made; every node goes by it within a second.")
    return redirect("quotas:policy", made.name)


@require_http_methods(["GET", "POST"])
@console_view(VIEW, post=QUOTA_EDIT, resource=SOMEWHERE)
def settings(request: HttpRequest, policy: str) -> HttpResponse:
    who = actor(request)
    row = policy_seen(who, policy)
    page: dict[str, Any] = {**frame(who, row), **_PARTS, "teams": team_names(), "values": snapshot(row)}
    if request.method == "GET":
        return form_page(request, "quotas/form.html", page)
    values = SETTINGS.typed(request.POST, SETTINGS.changeable)
    reason = request.POST.get("reason", "")
    page["values"] = {**page["values"], **values, "reason": reason}
    if "preview" in request.POST:
        return _previewed(request, page)
    try:
        changed = change_policy(who, policy, values, reason, version=revision(request.POST))
    except BadInput as refused:
        return form_page(request, "quotas/form.html", page, refused)
    if changed.version == row.version:
        messages.info(request, "Nothing was different, so nothing changed.")
    else:
        messages.success(request, f"{policy} is changed: version {changed.version}, on every node within a second.")
    return redirect("quotas:policy", policy)


def _previewed(request: HttpRequest, page: dict[str, Any]) -> HttpResponse:
    """The form as it was sent, with what its policy would have done; nothing is stored."""
    try:
        found = preview(page["values"], clock.now_ms(), visible_scopes(actor(request), VIEW))
    except BadInput as refused:
        return form_page(request, "quotas/form.html", page, refused)
    answer = form_page(request, "quotas/form.html", {**page, "preview": found})
    answer[FORM_MARK] = FORM_KEPT
    return answer
