"""Quota policies and their versions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.api.acts import reason_act
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, plain, read, takes
from hbus_console.api.bodies import DeleteBody, ReasonBody
from hbus_console.api.drafts import answer, answered, change_body, new_body
from hbus_console.api.revisions import CONDITIONAL, TAGGED, RevisedView
from hbus_console.api.views import ApiView
from hbus_console.quotas.models import PolicyVersion, QuotaPolicy
from hbus_console.quotas.services import policies
from hbus_console.quotas.services.draft import SETTINGS, PolicyDraft

NewPolicy = new_body(SETTINGS, "NewQuotaPolicy", "A quota policy; ``owner`` names a team.")
PolicyChange = change_body(SETTINGS, "QuotaPolicyChange", "What to change; an empty ``owner`` takes it away.")
PolicyOut = answer(
    SETTINGS,
    "QuotaPolicyOut",
    "A quota policy as nodes are held to it within a second.",
    first=[("name", str)],
    last=[("created_at", datetime), ("updated_at", datetime), ("version", int)],
)


class PolicyVersionOut(msgspec.Struct):
    """What a policy was, and from which version of all policies to before which; null: it still is."""

    number: int
    settings: dict[str, Any]
    since: int
    until: int | None
    made_at: datetime
    #: The entry of the audit log that says who made it and why.
    audit_seq: int


class RestorePolicyBody(ReasonBody, kw_only=True):
    """Which version to go back to."""

    number: int


def shown(row: QuotaPolicy) -> dict[str, Any]:
    """A policy as the API gives it."""
    last = {"created_at": row.created_at, "updated_at": row.updated_at, "version": row.version}
    return {"name": row.name, **answered(SETTINGS, row), **last}


class Policies(ApiView):
    @extend_schema(
        operation_id="quota_policies_list",
        summary="Quota policies, by name",
        tags=["quotas"],
        parameters=[OpenApiParameter("owner", description="Name of a team; empty for those nobody owns."), *PAGES],
        responses={(200, "application/json"): page_of(described(PolicyOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        rows = QuotaPolicy.objects.select_related("team")
        if (owner := request.GET.get("owner")) is not None:
            rows = rows.filter(team__name=owner) if owner else rows.filter(team=None)
        return self.page(rows, shown, ordering="name")

    @extend_schema(
        operation_id="quota_policies_create",
        summary="Make a quota policy",
        description="It may cover everybody: that takes a governor of the whole installation.",
        tags=["quotas"],
        request=takes(NewPolicy),
        responses=answers(PolicyOut, 201),
    )
    def post(self, request: Request) -> Response:
        body = read(request, NewPolicy)
        made = policies.create_policy(self.actor, PolicyDraft(**body.settings()), body.reason)
        return Response(shown(made), status=status.HTTP_201_CREATED)


class OnePolicy(RevisedView):
    @extend_schema(
        operation_id="quota_policies_read",
        summary="One quota policy",
        tags=["quotas"],
        parameters=TAGGED,
        responses=answers(PolicyOut),
    )
    def get(self, request: Request, policy: str) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        row = policies.policy(policy)
        return self.tagged(shown(row), row.version)

    @extend_schema(
        operation_id="quota_policies_change",
        summary="Change a quota policy",
        description="Every node is held to it within a second; tokens that are there already stay.",
        tags=["quotas"],
        parameters=CONDITIONAL,
        request=takes(PolicyChange),
        responses=answers(PolicyOut),
    )
    def patch(self, request: Request, policy: str) -> Response:
        body, version = self.change(request, PolicyChange)
        row = policies.change_policy(self.actor, policy, body.changes(), body.reason, version=version)
        return self.tagged(shown(row), row.version)

    @extend_schema(
        operation_id="quota_policies_delete",
        summary="Delete a quota policy",
        description="Nobody is held to it within a second. What it was is kept.",
        tags=["quotas"],
        request=takes(DeleteBody),
        responses={204: None, **REFUSED},
    )
    def delete(self, request: Request, policy: str) -> Response:
        body = read(request, DeleteBody)
        policies.delete_policy(self.actor, policy, body.typed_name, body.reason)
        return Response(status=status.HTTP_204_NO_CONTENT)


class PolicyVersions(ApiView):
    @extend_schema(
        operation_id="quota_policies_versions",
        summary="What a policy was, the newest version first",
        description="Also of one that was deleted.",
        tags=["quotas"],
        parameters=PAGES,
        responses={(200, "application/json"): page_of(described(PolicyVersionOut)), **REFUSED},
    )
    def get(self, request: Request, policy: str) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        return self.page(PolicyVersion.objects.filter(policy=policy), _version, ordering="-number")


class RestorePolicy(ApiView):
    @extend_schema(
        operation_id="quota_policies_restore",
        summary="Make a policy what it was in a version",
        description="As a new version. Needs a reason.",
        tags=["quotas"],
        request=takes(RestorePolicyBody),
        responses=answers(PolicyOut),
    )
    def post(self, request: Request, policy: str) -> Response:
        body = read(request, RestorePolicyBody)
        return Response(shown(policies.restore_policy(self.actor, policy, body.number, body.reason)))


PromoteTrial = reason_act(
    policies.promote_trial,
    operation_id="quota_policies_promote",
    summary="Hold everybody to the limit that was tried at some",
    description="Needs a reason.",
    tag="quotas",
    gives=answers(PolicyOut),
    shown=shown,
)


def _version(row: PolicyVersion) -> Any:
    return plain(PolicyVersionOut(row.number, row.settings, row.since, row.until, row.made_at, row.audit_seq))
