"""Versions of all quota policies together: what changed, and going back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.errors import BadInput, NotThere
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, plain, read, takes
from hbus_console.api.bodies import ReasonBody
from hbus_console.api.views import ApiView
from hbus_console.quotas.models import QuotaBook
from hbus_console.quotas.services.rolling_back import difference, roll_back


class QuotaBookOut(msgspec.Struct):
    """One version of all policies and plans, and the entry of the audit log that says what led to it."""

    number: int
    made_at: datetime
    audit_seq: int


class ChangedPolicyOut(msgspec.Struct):
    """What a policy was and is; null where it was not, or is not."""

    policy: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class ChangedPlanOut(msgspec.Struct):
    """Which plan a tenant had and has; empty: none."""

    tenant: str
    before: str
    after: str


class BookDifferenceOut(msgspec.Struct):
    """What differs between two versions."""

    policies: list[ChangedPolicyOut]
    plans: list[ChangedPlanOut]


class RolledBackOut(msgspec.Struct):
    """The version that is what the one asked for was."""

    number: int


class Books(ApiView):
    @extend_schema(
        operation_id="quota_books_list",
        summary="Versions of all quota policies, the newest first",
        tags=["quotas"],
        parameters=PAGES,
        responses={(200, "application/json"): page_of(described(QuotaBookOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        return self.page(
            QuotaBook.objects.all(),
            lambda row: plain(QuotaBookOut(row.number, row.made_at, row.audit_seq)),
            ordering="-number",
        )


class BookDifference(ApiView):
    @extend_schema(
        operation_id="quota_books_difference",
        summary="What differs between a version and a later or earlier one",
        tags=["quotas"],
        parameters=[OpenApiParameter("to", int, description="The other version; what stands now when left out.")],
        responses=answers(BookDifferenceOut),
    )
    def get(self, request: Request, number: int) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        other = _number(request.GET.get("to"))
        for each in (number, other):
            if each is not None and not QuotaBook.objects.filter(number=each).exists():
                raise NotThere(f"There is no version {each}.", remedy="Look at the list of them.", field="number")
        found = difference(number, other)
        out = BookDifferenceOut(
            [ChangedPolicyOut(name, before, after) for name, (before, after) in found.policies.items()],
            [ChangedPlanOut(tenant, before, after) for tenant, (before, after) in found.plans.items()],
        )
        return Response(plain(out))


class RollBack(ApiView):
    @extend_schema(
        operation_id="quota_books_roll_back",
        summary="Make all policies and plans what they were in a version",
        description="As a new version, in one act. Needs a reason.",
        tags=["quotas"],
        request=takes(ReasonBody),
        responses=answers(RolledBackOut),
    )
    def post(self, request: Request, number: int) -> Response:
        body = read(request, ReasonBody)
        return Response(plain(RolledBackOut(roll_back(self.actor, number, body.reason))))


def _number(given: str | None) -> int | None:
    if given is None:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) <= 18):
        raise BadInput(f"{given[:40]!r} is no version.", remedy="Write its number.", field="to")
    return int(given)
