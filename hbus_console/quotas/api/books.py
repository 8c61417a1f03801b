"""Books: all policies and plans in one version, what differs between two, and the way back to one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.api.acts import reason_act
from hbus_console.api.answers import PAGES, REFUSED, answers, described, fields_of, page_of, plain
from hbus_console.api.views import ApiView
from hbus_console.quotas.models import QuotaBook
from hbus_console.quotas.services.differences import difference, digest
from hbus_console.quotas.services.kept_books import book_at
from hbus_console.quotas.services.rolling_back import roll_back
from hbus_console.quotas.sight import difference_seen, sees_everything

_NUMBER = {"type": "integer", "minimum": 1}


class BookOut(msgspec.Struct):
    """A book; nodes are held to the one of the greatest number. ``audit_seq`` is the entry of the audit log that led
    to it.
    """

    number: int
    audit_seq: int
    made_at: datetime


class PolicyDifferenceOut(msgspec.Struct):
    """The settings of a policy in both books; null where there was none."""

    name: str
    older: dict[str, Any] | None
    newer: dict[str, Any] | None


class PlanDifferenceOut(msgspec.Struct):
    """The plan of a tenant in both books; empty where it had none."""

    tenant: str
    older: str
    newer: str


class DifferenceOut(msgspec.Struct):
    """What differs; nothing where both are the same. ``sha256`` is that of ``policies`` and ``plans`` as JSON, keys
    sorted, without spaces, whole numbers written as integers; entries of the audit log have the same. Null for who
    does not see all of both.
    """

    policies: list[PolicyDifferenceOut]
    plans: list[PlanDifferenceOut]
    sha256: str | None


class RolledBackOut(msgspec.Struct):
    """The number of the newest book, which is as the one that was gone back to."""

    number: int


class QuotaBooks(ApiView):
    @extend_schema(
        operation_id="quota_books_list",
        summary="All policies and plans in their versions, the newest first",
        description="Those that are kept: of a configured time, and the newest in any case.",
        tags=["quotas"],
        parameters=PAGES,
        responses={(200, "application/json"): page_of(described(BookOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        return self.page(QuotaBook.objects.all(), lambda row: plain(BookOut(**fields_of(row, BookOut))))


class BooksDifference(ApiView):
    @extend_schema(
        operation_id="quota_books_difference",
        summary="What differs between two books",
        tags=["quotas"],
        parameters=[
            OpenApiParameter("older", _NUMBER, required=True, description="Its number."),
            OpenApiParameter("newer", _NUMBER, description="Its number; left out: what stands now."),
        ],
        responses=answers(DifferenceOut),
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        newer = request.GET.get("newer")
        older = book_at(int(request.GET["older"]), "older").number
        both = older, book_at(int(newer), "newer").number if newer else None
        whole = difference(*both)
        found = difference_seen(self.actor, whole)
        policies = [PolicyDifferenceOut(name, *both) for name, both in found.policies.items()]
        plans = [PlanDifferenceOut(tenant, *both) for tenant, both in found.plans.items()]
        proof = digest(whole) if sees_everything(self.actor) else None
        return Response(plain(DifferenceOut(policies, plans, proof)))


RollBack = reason_act(
    roll_back,
    operation_id="quota_books_roll_back",
    summary="Make all policies and plans what they were in a book, as a new one",
    description="A policy whose team is gone comes back without an owner. Needs a reason.",
    tag="quotas",
    gives=answers(RolledBackOut),
    shown=lambda number: plain(RolledBackOut(number)),
)
