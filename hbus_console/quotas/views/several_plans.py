"""The plans of several tenants, set in one act."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from engine.core.errors import BadInput
from hbus_console.access.web import actor, console_view
from hbus_console.quotas.feature import QUOTA_PLAN
from hbus_console.quotas.plan_lines import NO_PLAN, by_line, read_lines
from hbus_console.quotas.services.plans import MOST_AT_ONCE, set_plans
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.forms import lines
from hbus_console.ui.pages import form_page, tell_done

_CURL = CurlRequest(
    "POST",
    "/api/v1/quota/plans",
    {"plans": [{"tenant": "globetrek", "plan": "gold"}], "reason": "why"},
    idempotent=True,
)


@require_http_methods(["GET", "POST"])
@console_view(QUOTA_PLAN)
def several(request: HttpRequest) -> HttpResponse:
    form = request.POST
    text, reason = lines(form, "lines"), form.get("reason", "")
    page: dict[str, Any] = {
        "nav": "quotas",
        "values": {"lines": text, "reason": reason},
        "most": MOST_AT_ONCE,
        "no_plan": NO_PLAN,
        "curl_spec": _CURL,
    }
    if request.method == "GET":
        return form_page(request, "quotas/several_plans.html", page)
    numbers: list[int] = []
    try:
        found = read_lines(text)
        numbers = found.numbers
        done = set_plans(actor(request), found.wanted, reason)
    except BadInput as refused:
        page["at"] = by_line(refused, numbers)
        return form_page(request, "quotas/several_plans.html", page, refused)
    beside = f" {done.unchanged:,} had theirs already." if done.unchanged else ""
    tenants = "1 tenant has" if done.changed == 1 else f"{done.changed:,} tenants have"
    tell_done(
        request, f"{tenants} another plan in version {done.book:,}; every node goes by it within a second.{beside}"
    )
    return redirect("quotas:plans")
