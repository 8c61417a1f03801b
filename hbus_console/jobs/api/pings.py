"""Where a job that runs elsewhere is pinged."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.accounts.api import ShownOnce
from hbus_console.api.answers import answers, plain, read, takes
from hbus_console.api.bodies import ReasonBody
from hbus_console.api.views import ApiView
from hbus_console.jobs.api import shapes
from hbus_console.jobs.models import PingAddress
from hbus_console.jobs.pings.code import address
from hbus_console.jobs.services import pings


class PingOut(msgspec.Struct):
    """The address, which is a secret, and what was heard last: ``start``, ``success``, ``failure``, ``exit code 3`` or
    ``log``. ``refused_at`` is when pings came that were too many.
    """

    address: str
    renewed_at: datetime
    heard: str
    heard_at: datetime | None
    refused_at: datetime | None


class PingAddressOfJob(ApiView):
    @extend_schema(
        operation_id="jobs_ping",
        summary="Where a job that runs elsewhere is pinged",
        description="For who may change the job: whoever has the address can say that the job is done.",
        tags=["jobs"],
        responses=answers(PingOut),
    )
    def get(self, request: Request, job: str) -> Response:
        return Response(_shown(request, pings.address_of(self.actor, job)))


class RenewPing(ShownOnce):
    @extend_schema(
        operation_id="jobs_ping_renew",
        summary="Give a job another ping address",
        description="The one before leads nowhere from then on. Needs a reason; no Idempotency-Key is taken.",
        tags=["jobs"],
        request=takes(ReasonBody),
        responses=answers(PingOut),
    )
    def post(self, request: Request, job: str) -> Response:
        return Response(_shown(request, pings.renew_address(self.actor, job, read(request, ReasonBody).reason)))


def _shown(request: Request, row: PingAddress) -> dict[str, Any]:
    url = address(request.build_absolute_uri("/"), row.code)
    return plain(PingOut(url, row.renewed_at, row.heard, shapes.moment(row.heard_us), shapes.moment(row.refused_us)))
