"""The plans of tenants."""

from __future__ import annotations

import msgspec
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, plain, read, takes
from hbus_console.api.bodies import Body, ReasonBody
from hbus_console.api.views import ApiView
from hbus_console.quotas.services.plans import MOST_AT_ONCE, PlanWanted, set_plan, set_plans
from hbus_console.quotas.sight import plans_seen


class TenantPlanOut(msgspec.Struct):
    """Which plan a tenant has; empty: none."""

    tenant: str
    plan: str


class TenantPlanBody(ReasonBody, kw_only=True):
    """Which plan a tenant is to have; empty: none."""

    plan: str


class WantedPlanBody(Body):
    """The plan that one of several tenants is to have; empty: none."""

    tenant: str
    plan: str


class TenantPlansBody(ReasonBody, kw_only=True):
    """The plans of 1 to 1,000 tenants, each once."""

    plans: list[WantedPlanBody]


class PlansSetOut(msgspec.Struct):
    """The number of the newest book, how many tenants have another plan by it, and how many had theirs already."""

    book: int
    changed: int
    unchanged: int


class TenantPlans(ApiView):
    @extend_schema(
        operation_id="quota_plans_list",
        summary="Tenants that have a plan",
        tags=["quotas"],
        parameters=[OpenApiParameter("plan", description="Of this plan alone."), *PAGES],
        responses={(200, "application/json"): page_of(described(TenantPlanOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        rows = plans_seen(self.actor)
        if plan := request.GET.get("plan"):
            rows = rows.filter(plan=plan)
        return self.page(rows, lambda row: plain(TenantPlanOut(row.tenant, row.plan)), ordering="tenant")

    # The address of the list, and none beneath it: there a tenant of any name stands.
    @extend_schema(
        operation_id="quota_plans_set_several",
        summary=f"Give up to {MOST_AT_ONCE:,} tenants their plans",
        description=(
            "All of them in one book with one audit entry, or none: each entry at fault is named, as "
            "`plans[3].tenant`. Tenants that are not named keep what they have."
        ),
        tags=["quotas"],
        request=takes(TenantPlansBody),
        responses=answers(PlansSetOut),
    )
    def post(self, request: Request) -> Response:
        body = read(request, TenantPlansBody)
        done = set_plans(self.actor, [PlanWanted(each.tenant, each.plan) for each in body.plans], body.reason)
        return Response(plain(PlansSetOut(*done)))


class PlanOfTenant(ApiView):
    @extend_schema(
        operation_id="quota_plans_set",
        summary="Give a tenant a plan, or none",
        description="Nodes go by it within a second. The tenant need not be known: it may come tomorrow.",
        tags=["quotas"],
        request=takes(TenantPlanBody),
        responses=answers(TenantPlanOut),
    )
    def put(self, request: Request, tenant: str) -> Response:
        body = read(request, TenantPlanBody)
        set_plan(self.actor, tenant, body.plan, body.reason)
        return Response(plain(TenantPlanOut(tenant.strip(), body.plan.strip())))
