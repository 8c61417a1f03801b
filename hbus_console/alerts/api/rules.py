"""Rules."""

from __future__ import annotations

import msgspec
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.numbers import whole
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.alerts import services
from hbus_console.alerts.api import shapes
from hbus_console.alerts.services import RuleDraft, lookup
from hbus_console.api.answers import REFUSED, answers, described, page_of, read, takes
from hbus_console.api.bodies import ReasonBody
from hbus_console.api.pagination import only_page
from hbus_console.api.revisions import CONDITIONAL, TAGGED, RevisedView
from hbus_console.api.views import ApiView


class Rules(ApiView):
    @extend_schema(
        operation_id="alert_rules_list",
        summary="Rules, by name",
        tags=["alerts"],
        responses={(200, "application/json"): page_of(described(shapes.RuleOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        return only_page([shapes.rule(row) for row in lookup.rules(self.actor)])

    @extend_schema(
        operation_id="alert_rules_create",
        summary="Add a rule",
        tags=["alerts"],
        request=takes(shapes.NewRule),
        responses=answers(shapes.RuleOut, 201),
    )
    def post(self, request: Request) -> Response:
        body = read(request, shapes.NewRule)
        made = services.create_rule(self.actor, RuleDraft(**body.settings()), body.reason)
        return Response(shapes.rule(made), status=status.HTTP_201_CREATED)


class PreviewRule(ApiView):
    @extend_schema(
        operation_id="alert_rules_preview",
        summary="For what a rule would fire now; stores nothing",
        tags=["alerts"],
        parameters=[OpenApiParameter("rule", OpenApiTypes.INT, description="The rule that would become it.")],
        request=takes(shapes.NewRule),
        responses=answers(shapes.PreviewOut),
    )
    def post(self, request: Request) -> Response:
        draft = RuleDraft(**read(request, shapes.NewRule).settings())
        return Response(shapes.preview(services.preview(self.actor, draft, of=whole(request.GET.get("rule", "")))))


class OneRule(RevisedView):
    @extend_schema(
        operation_id="alert_rules_read",
        summary="One rule",
        tags=["alerts"],
        parameters=TAGGED,
        responses=answers(shapes.RuleOut),
    )
    def get(self, request: Request, rule_id: int) -> Response:
        row = services.rule(self.actor, rule_id)
        return self.tagged(shapes.rule(row), row.revision)

    @extend_schema(
        operation_id="alert_rules_change",
        summary="Change a rule",
        tags=["alerts"],
        parameters=CONDITIONAL,
        request=takes(shapes.RuleChange),
        responses=answers(shapes.RuleOut),
    )
    def patch(self, request: Request, rule_id: int) -> Response:
        body, revision = self.change(request, shapes.RuleChange)
        changed = services.change_rule(self.actor, rule_id, body.changes(), body.reason, revision=revision)
        return self.tagged(shapes.rule(changed), changed.revision)

    @extend_schema(
        operation_id="alert_rules_delete",
        summary="Delete a rule; its open alerts are over",
        tags=["alerts"],
        request=takes(ReasonBody),
        responses={204: None, **REFUSED},
    )
    def delete(self, request: Request, rule_id: int) -> Response:
        services.delete_rule(self.actor, rule_id, read(request, ReasonBody).reason)
        return Response(status=status.HTTP_204_NO_CONTENT)


class TryRule(ApiView):
    @extend_schema(
        operation_id="alert_rules_test",
        summary="Send a marked test to every channel of the rule",
        tags=["alerts"],
        request=None,
        responses={
            (200, "application/json"): {"type": "array", "items": described(shapes.TriedOut)},
            **REFUSED,
        },
    )
    def post(self, request: Request, rule_id: int) -> Response:
        tried = services.try_rule(self.actor, rule_id)
        return Response([msgspec.to_builtins(shapes.TriedOut(it.channel, it.taken, it.said)) for it in tried])
