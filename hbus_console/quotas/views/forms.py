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
from hbus_console.quotas.services.policies import change_policy, check_change, check_draft, create_policy
from hbus_console.quotas.sight import policy_seen
from hbus_console.quotas.views.policy import frame
from hbus_console.quotas.wording import holds_console
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
    values = _typed(request)
    name, reason = text(request.POST, "name"), request.POST.get("reason", "")
    page["values"] = {**page["values"], **values, "name": name, "reason": reason}
    draft = PolicyDraft(**{**values, "name": name})
    try:
        if "preview" in request.POST:
            return _previewed(request, page, check_draft(draft, reason)[0])
        made = create_policy(actor(request), draft, reason)
    except BadInput as refused:
        return form_page(request, "quotas/form.html", page, refused)
    also = " It holds on the pages of this console too." if holds_console(snapshot(made)) else ""
    messages.success(request, f"{made.name} is made; every node goes by it within a second.{also}")
    return redirect("quotas:policy", made.name)


@require_http_methods(["GET", "POST"])
@console_view(VIEW, post=QUOTA_EDIT, resource=SOMEWHERE)
def settings(request: HttpRequest, policy: str) -> HttpResponse:
    who = actor(request)
    row = policy_seen(who, policy)
    page: dict[str, Any] = {**frame(who, row), **_PARTS, "teams": team_names(), "values": snapshot(row)}
    if request.method == "GET":
        return form_page(request, "quotas/form.html", page)
    values = _typed(request)
    reason = request.POST.get("reason", "")
    page["values"] = {**page["values"], **values, "reason": reason}
    try:
        if "preview" in request.POST:
            return _previewed(request, page, check_change(snapshot(row), values, reason)[0])
        changed = change_policy(who, policy, values, reason, version=revision(request.POST))
    except BadInput as refused:
        return form_page(request, "quotas/form.html", page, refused)
    if changed.version == row.version:
        messages.info(request, "Nothing was different, so nothing changed.")
    else:
        messages.success(request, f"{policy} is changed: version {changed.version}, on every node within a second.")
    return redirect("quotas:policy", policy)


def _typed(request: HttpRequest) -> dict[str, Any]:
    values = SETTINGS.typed(request.POST, SETTINGS.changeable)
    # Whoever leaves the burst empty says none, and the draft knows what it is then.
    return {name: None if (name, value) == ("burst", "") else value for name, value in values.items()}


def _previewed(request: HttpRequest, page: dict[str, Any], settings: dict[str, Any]) -> HttpResponse:
    """The form as it was sent, with what a policy of those settings would have done; nothing is stored."""
    found = preview(settings, clock.now_ms(), visible_scopes(actor(request), VIEW))
    answer = form_page(
        request, "quotas/form.html", {**page, "preview": found, "holds_console": holds_console(settings)}
    )
    answer[FORM_MARK] = FORM_KEPT
    return answer
