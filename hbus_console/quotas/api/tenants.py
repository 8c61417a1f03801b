"""What tenants used, over HTTP."""

from __future__ import annotations

import msgspec
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.clock import SystemClock, to_rfc3339
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.api.answers import answers, fields_of, plain
from hbus_console.api.series import SPANS, asked_spans
from hbus_console.api.views import ApiView
from hbus_console.quotas.tenant_series import tenant_named, tenant_points, tenant_reach, tenant_resolution

_clock = SystemClock()


class TenantPointOut(msgspec.Struct):
    """Tokens in one span, which begins at ``at``; ``shadowed`` is what policies that only count would have refused."""

    at: str
    admitted: int
    delayed: int
    refused: int
    shadowed: int


class TenantSeriesOut(msgspec.Struct):
    """Of what one may see. A span in which nothing was used has no point; what begins before ``told_since`` is not
    known by this resolution."""

    tenant: str
    resolution: str
    told_since: str
    points: list[TenantPointOut]


class SeriesOfTenant(ApiView):
    @extend_schema(
        operation_id="quota_tenant_series",
        summary="What a tenant used by the minute, hour or day",
        description="Of all limits in your scopes together, and of 2,000 spans at most. The resolution is the finest "
        "that is kept of the time, unless said.",
        tags=["quotas"],
        parameters=SPANS,
        responses=answers(TenantSeriesOut),
    )
    def get(self, request: Request, tenant: str) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        name, known = tenant_named(tenant), tenant_reach(_clock.now_ms())
        resolution, steps = asked_spans(
            request, lambda start_s, end_s: tenant_resolution(start_s, end_s, known), _clock
        )
        out = TenantSeriesOut(
            tenant=name,
            resolution=resolution.value,
            told_since=to_rfc3339(known.since(resolution) * 1000),
            points=[
                TenantPointOut(at=to_rfc3339(each.at * 1000), **fields_of(each, TenantPointOut, "at"))
                for each in tenant_points(self.actor, name, resolution, steps, known)
            ],
        )
        return Response(plain(out))
