"""Which plan each tenant has, and which policies are for a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, allows
from hbus_console.access.web import actor, console_view
from hbus_console.quotas.feature import QUOTA_PLAN
from hbus_console.quotas.services.kept_books import books_reach
from hbus_console.quotas.services.plans import set_plan
from hbus_console.quotas.sight import plans_seen, policies_seen, sees_everything
from hbus_console.quotas.suggesting import plans_like
from hbus_console.ui.forms import text
from hbus_console.ui.pages import act
from hbus_console.ui.rows import PAGE, Filters, read_filters

#: Plans of the list, and policies that it names of each; one plan by itself names a page of them.
PLANS_LISTED, POLICIES_NAMED = 50, 3


@dataclass(frozen=True)
class PlanFilters(Filters):
    """Tenants by a part of their name, and of one plan alone."""

    plan: str = ""


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def plans(request: HttpRequest) -> HttpResponse:
    who, wanted, cursor = actor(request), read_filters(PlanFilters, request.GET), request.GET.get("cursor", "")
    every = plans_seen(who)
    found = every.filter(plan=wanted.plan) if wanted.plan else every
    found = found.filter(tenant__icontains=wanted.q) if wanted.q else found
    rows = list(found.filter(tenant__gt=cursor).order_by("tenant")[: PAGE + 1])
    tenants = dict(every.order_by().values_list("plan").annotate(Count("pk")))
    covering = policies_seen(who).exclude(plan="").order_by()
    policies = dict(covering.values_list("plan").annotate(Count("pk")))
    context = {
        "nav": "quotas",
        "rows": [{"row": row, "covered": row.plan in policies} for row in rows[:PAGE]],
        "next_cursor": rows[PAGE - 1].tenant if len(rows) > PAGE else "",
        "wanted": wanted,
        "reach": books_reach(),
        "number": sum(tenants.values()),
        "suggested": plans_like(who, ""),
        "sees_all": sees_everything(who),
        "may_plan": allows(who, QUOTA_PLAN),
    }
    if wanted.plan:
        context["one"] = {
            "tenants": tenants.get(wanted.plan, 0),
            "number": policies.get(wanted.plan, 0),
            **_policies_of(who, wanted.plan, request.GET.get("policies_after", "")),
        }
    else:
        context |= _listed(who, tenants, policies)
    return render(request, "quotas/plans.html", context)


def _listed(who: Actor, tenants: dict[str, int], policies: dict[str, int]) -> dict[str, Any]:
    """The plans of most tenants, with the first policies of each."""
    names = sorted(tenants.keys() | policies.keys(), key=lambda name: (-tenants.get(name, 0), name))
    first: dict[str, list[str]] = {}
    covering = policies_seen(who).filter(plan__in=names[:PLANS_LISTED]).order_by("name")
    for plan, policy in covering.values_list("plan", "name"):
        named = first.setdefault(plan, [])
        if len(named) < POLICIES_NAMED:
            named.append(policy)
    return {
        "plans": [
            {
                "name": name,
                "tenants": tenants.get(name, 0),
                "policies": first.get(name, []),
                "more": policies.get(name, 0) - len(first.get(name, [])),
            }
            for name in names[:PLANS_LISTED]
        ],
        "more_plans": max(0, len(names) - PLANS_LISTED),
    }


def _policies_of(who: Actor, plan: str, after: str) -> dict[str, Any]:
    found = policies_seen(who).filter(plan=plan, name__gt=after).order_by("name").values_list("name", flat=True)
    names = list(found[: PAGE + 1])
    return {"policies": names[:PAGE], "next": names[PAGE - 1] if len(names) > PAGE else "", "after": after}


@require_POST
@console_view(VIEW, post=QUOTA_PLAN)
def set_one(request: HttpRequest) -> HttpResponse:
    form = request.POST
    tenant, plan = text(form, "tenant"), text(form, "plan")
    said = f"{tenant} has the plan {plan}" if plan else f"{tenant} has no plan"

    def do() -> None:
        set_plan(actor(request), tenant, plan, form.get("reason", ""))

    return act(request, f"{said}; every node goes by it within a second.", do, "quotas:plans")
