"""The plans of tenants."""

from __future__ import annotations

from typing import Any

import msgspec
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import require
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, plain, read, takes
from hbus_console.api.bodies import ReasonBody
from hbus_console.api.views import ApiView
from hbus_console.quotas.models import TenantPlan
from hbus_console.quotas.services.plans import set_plan


class TenantPlanOut(msgspec.Struct):
    """A tenant and its plan; empty: none."""

    tenant: str
    plan: str


class TenantPlanBody(ReasonBody, kw_only=True):
    """Which plan it gets; empty: none."""

    plan: str


class Plans(ApiView):
    @extend_schema(
        operation_id="quota_plans_list",
        summary="The plans of tenants, by tenant",
        description="Takes a grant on the whole installation: tenants are in no namespace.",
        tags=["quotas"],
        parameters=[OpenApiParameter("plan"), *PAGES],
        responses={(200, "application/json"): page_of(described(TenantPlanOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW)
        rows = TenantPlan.objects.filter(until__isnull=True)
        if plan := request.GET.get("plan"):
            rows = rows.filter(plan=plan)
        return self.page(rows, _shown, ordering="tenant")


class OnePlan(ApiView):
    @extend_schema(
        operation_id="quota_plans_set",
        summary="Give a tenant a plan",
        description="Every node goes by it within a second. The tenant need not be known yet.",
        tags=["quotas"],
        request=takes(TenantPlanBody),
        responses=answers(TenantPlanOut),
    )
    def put(self, request: Request, tenant: str) -> Response:
        body = read(request, TenantPlanBody)
        set_plan(self.actor, tenant, body.plan, body.reason)
        return Response(plain(TenantPlanOut(tenant, body.plan)))


def _shown(row: TenantPlan) -> Any:
    return plain(TenantPlanOut(row.tenant, row.plan))
