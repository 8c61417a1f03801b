"""Which plan each tenant has."""

from __future__ import annotations

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, allows
from hbus_console.access.web import actor, console_view
from hbus_console.quotas.feature import QUOTA_PLAN
from hbus_console.quotas.services.plans import set_plan
from hbus_console.quotas.sight import plans_seen, policies_seen
from hbus_console.ui.forms import text
from hbus_console.ui.pages import act
from hbus_console.ui.rows import PAGE, Filters, read_filters


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def plans(request: HttpRequest) -> HttpResponse:
    who, wanted, cursor = actor(request), read_filters(Filters, request.GET), request.GET.get("cursor", "")
    every = plans_seen(who)
    found = every.filter(tenant__icontains=wanted.q) if wanted.q else every
    rows = list(found.filter(tenant__gt=cursor).order_by("tenant")[: PAGE + 1])
    limits: dict[str, list[str]] = {}
    for name, plan in policies_seen(who).exclude(plan="").values_list("name", "plan"):
        limits.setdefault(plan, []).append(name)
    tenants = dict(every.order_by().values_list("plan").annotate(Count("pk")))
    context = {
        "nav": "quotas",
        "rows": [{"row": row, "policies": limits.get(row.plan, []), "sheet": f"plan-{row.pk}"} for row in rows[:PAGE]],
        "next_cursor": rows[PAGE - 1].tenant if len(rows) > PAGE else "",
        "wanted": wanted,
        "number": every.count(),
        "plans": [
            {"name": name, "tenants": tenants.get(name, 0), "policies": limits.get(name, [])}
            for name in sorted(tenants.keys() | limits.keys())
        ],
        "may_plan": allows(who, QUOTA_PLAN),
    }
    return render(request, "quotas/plans.html", context)


@require_POST
@console_view(VIEW, post=QUOTA_PLAN)
def set_one(request: HttpRequest) -> HttpResponse:
    form = request.POST
    tenant, plan = text(form, "tenant"), text(form, "plan")
    said = f"{tenant} has the plan {plan}" if plan else f"{tenant} has no plan"

    def do() -> None:
        set_plan(actor(request), tenant, plan, form.get("reason", ""))

    return act(request, f"{said}; every node goes by it within a second.", do, "quotas:plans")
