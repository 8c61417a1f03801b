"""The plans of tenants."""

from __future__ import annotations

import msgspec
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, plain, read, takes
from hbus_console.api.bodies import ReasonBody
from hbus_console.api.views import ApiView
from hbus_console.quotas.services.plans import set_plan
from hbus_console.quotas.sight import plans_seen


class TenantPlanOut(msgspec.Struct):
    """Which plan a tenant has; empty: none."""

    tenant: str
    plan: str


class TenantPlanBody(ReasonBody, kw_only=True):
    """Which plan a tenant is to have; empty: none."""

    plan: str


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
