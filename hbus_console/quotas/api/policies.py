"""Quota policies and their versions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from django.db.models import Q
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require, visible_scopes
from hbus_console.api.acts import reason_act
from hbus_console.api.answers import PAGES, REFUSED, answers, described, fields_of, page_of, plain, read, takes
from hbus_console.api.bodies import DeleteBody
from hbus_console.api.drafts import answer, answered, change_body, new_body
from hbus_console.api.revisions import CONDITIONAL, TAGGED, RevisedView
from hbus_console.api.views import ApiView
from hbus_console.quotas.models import PolicyVersion, QuotaPolicy
from hbus_console.quotas.services import policies as kept
from hbus_console.quotas.services.draft import SETTINGS, PolicyDraft
from hbus_console.quotas.sight import meets, policies_seen, policy_seen

NewPolicy = new_body(
    SETTINGS, "NewPolicy", "A policy; ``owner`` names a team, ``limit`` is a second or in each period."
)
PolicyChange = change_body(SETTINGS, "PolicyChange", "What to change of a policy; an empty ``owner`` takes it away.")
PolicyOut = answer(
    SETTINGS,
    "PolicyOut",
    "A policy as it is configured. ``owner`` is null where nobody answers for it; it holds all the same.",
    first=[("name", str)],
    after={"owner": [("contact", str | None)]},
    last=[("created_at", datetime), ("updated_at", datetime), ("revision", int)],
)


class PolicyVersionOut(msgspec.Struct):
    """What a policy was in the books from ``since`` on, and before ``until`` (null: in the newest, too). ``audit_seq``
    is the entry of the audit log that says who made it and why.
    """

    number: int
    settings: dict[str, Any]
    since: int
    until: int | None
    audit_seq: int
    made_at: datetime


def _out(row: QuotaPolicy) -> dict[str, Any]:
    told = {"contact": row.team.contact if row.team else None, "revision": row.version}
    settings = answered(SETTINGS, row)
    return plain(PolicyOut(**settings, **told, **fields_of(row, PolicyOut, *settings, *told)))


class QuotaPolicies(ApiView):
    @extend_schema(
        operation_id="quota_policies_list",
        summary="Quota policies",
        tags=["quotas"],
        parameters=[
            OpenApiParameter("owner", description="Name of a team; empty for policies nobody owns."),
            OpenApiParameter("q", description="Part of the name or of the description, in any case."),
            *PAGES,
        ],
        responses={(200, "application/json"): page_of(described(PolicyOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        rows = policies_seen(self.actor)
        if (owner := request.GET.get("owner")) is not None:
            rows = rows.filter(team__name=owner) if owner else rows.filter(team=None)
        if text := request.GET.get("q"):
            rows = rows.filter(Q(name__icontains=text) | Q(description__icontains=text))
        return self.page(rows, _out, ordering="name")

    @extend_schema(
        operation_id="quota_policies_create",
        summary="Create a policy with its owner",
        description="Every node goes by it within a second.",
        tags=["quotas"],
        request=takes(NewPolicy),
        responses=answers(PolicyOut, 201),
    )
    def post(self, request: Request) -> Response:
        body = read(request, NewPolicy)
        made = kept.create_policy(self.actor, PolicyDraft(**body.settings()), body.reason)
        return Response(_out(made), status=status.HTTP_201_CREATED)


class OneQuotaPolicy(RevisedView):
    @extend_schema(
        operation_id="quota_policies_read",
        summary="One policy",
        tags=["quotas"],
        parameters=TAGGED,
        responses=answers(PolicyOut),
    )
    def get(self, request: Request, policy: str) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        row = policy_seen(self.actor, policy)
        return self.tagged(_out(row), row.version)

    @extend_schema(
        operation_id="quota_policies_change",
        summary="Change a policy, which makes a version of it and a book",
        description="Every node goes by it within a second.",
        tags=["quotas"],
        parameters=CONDITIONAL,
        request=takes(PolicyChange),
        responses=answers(PolicyOut),
    )
    def patch(self, request: Request, policy: str) -> Response:
        body, revision = self.change(request, PolicyChange)
        changed = kept.change_policy(self.actor, policy, body.changes(), body.reason, version=revision)
        return self.tagged(_out(changed), changed.version)

    @extend_schema(
        operation_id="quota_policies_delete",
        summary="Delete a policy",
        description="Nobody is held to it within a second. Its versions are kept.",
        tags=["quotas"],
        request=takes(DeleteBody),
        responses={204: None, **REFUSED},
    )
    def delete(self, request: Request, policy: str) -> Response:
        body = read(request, DeleteBody)
        kept.delete_policy(self.actor, policy, body.typed_name, body.reason)
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
        rows = PolicyVersion.objects.filter(policy=policy)
        scopes = visible_scopes(self.actor, VIEW)
        # What it was while it was about something else is for who saw it then.
        met = [number for number, settings in rows.values_list("number", "settings") if meets(scopes, settings)]
        if not met:
            policy_seen(self.actor, policy)
        rows = rows.filter(number__in=met)
        return self.page(
            rows, lambda row: plain(PolicyVersionOut(**fields_of(row, PolicyVersionOut))), ordering="-number"
        )


RestorePolicy = reason_act(
    kept.restore_policy,
    operation_id="quota_policies_restore",
    summary="Make a policy what it was in a version, as a new one",
    description="Needs a reason.",
    tag="quotas",
    gives=answers(PolicyOut),
    shown=_out,
)
PromoteTrial = reason_act(
    kept.promote_trial,
    operation_id="quota_policies_promote",
    summary="Hold everybody to what is tried at some",
    description="Where nothing is tried it is refused with 409. Needs a reason.",
    tag="quotas",
    gives=answers(PolicyOut),
    shown=_out,
)
