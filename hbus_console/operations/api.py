"""Operations over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.subject import Subject
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, read, takes
from hbus_console.api.bodies import Body, ReasonBody
from hbus_console.api.views import ApiView
from hbus_console.operations import services
from hbus_console.operations.kinds import Plan, Sample
from hbus_console.operations.models import Operation, OperationItem


class PlanBody(Body):
    """What would be done: a kind (``redrive``, ``discard`` …) and what it is to work on."""

    kind: str
    spec: dict[str, Any]


class StartBody(Body):
    """The same, with why, and how many a second at most (0: as fast as it goes).

    With the ``horizon`` that the dry run answered, nothing is touched that came after it (none: what is there now).
    """

    kind: str
    spec: dict[str, Any]
    reason: str = ""
    rate_per_s: int = 0
    horizon: int | None = None


class SampleOut(msgspec.Struct):
    """One thing it would touch. ``message_id`` and ``subscription`` are empty where it has to do with none."""

    subject: str
    message_id: str
    topic: str
    subscription: str
    at: datetime
    detail: str


class PlanOut(msgspec.Struct):
    """The dry run. With an ``obstacle`` it cannot be started; a start with its ``horizon`` touches no more."""

    total: int | None
    samples: list[SampleOut]
    warnings: list[str]
    scanned: str
    obstacle: str
    horizon: int | None


class OperationOut(msgspec.Struct):
    """One operation. ``total`` is 0 when it could not be told before."""

    id: int
    kind: str
    title: str
    spec: dict[str, Any]
    topic: str
    state: str
    actor: str
    reason: str
    audit_seq: int
    rate_per_s: int
    total: int
    done: int
    skipped: int
    failed: int
    scanned: int
    note: str
    last_error: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class StartOut(msgspec.Struct):
    """``new`` is false when the same work was under way already: then nothing was started."""

    new: bool
    sentence: str
    operation: OperationOut


class ItemOut(msgspec.Struct):
    """What became of one thing; ``new_message_id`` is the copy, where one was published."""

    subject: str
    message_id: str
    topic: str
    subscription: str
    result: str
    detail: str
    new_message_id: str
    at: datetime


def operation_out(row: Operation) -> dict[str, Any]:
    """An operation as it is shown."""
    names = [name for name in OperationOut.__struct_fields__ if name != "topic"]
    return {"topic": row.namespace, **{name: getattr(row, name) for name in names}}


def _item(row: OperationItem) -> dict[str, Any]:
    return {
        **_named(row.subject, row.facets),
        "result": row.result,
        "detail": row.detail,
        "new_message_id": row.made.name if row.made else "",
        "at": row.at,
    }


def _sample(found: Sample) -> dict[str, Any]:
    return {**_named(found.subject, found.facets), "at": found.at, "detail": found.detail}


def _named(subject: Subject, facets: Mapping[str, str]) -> dict[str, str]:
    """A subject, and the parts of it under the names that version 1 of the API has always given them."""
    return {
        "subject": str(subject),
        "message_id": subject.name if subject.kind == "message" else "",
        "topic": subject.namespace,
        "subscription": subject.name if subject.kind == "subscription" else facets.get("subscription", ""),
    }


def _plan(found: Plan) -> dict[str, Any]:
    return {
        "total": found.total,
        "samples": [_sample(sample) for sample in found.samples],
        "warnings": list(found.warnings),
        "scanned": found.scanned,
        "obstacle": found.obstacle,
        "horizon": found.horizon,
    }


class Operations(ApiView):
    @extend_schema(
        operation_id="operations_list",
        summary="Operations, the newest first",
        tags=["operations"],
        parameters=[OpenApiParameter("state", enum=Operation.State.values), *PAGES],
        responses={(200, "application/json"): page_of(described(OperationOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        rows = services.operations(self.actor)
        if state := request.GET.get("state"):
            rows = rows.filter(state=state)
        return self.page(rows, operation_out)

    @extend_schema(
        operation_id="operations_start",
        summary="Start an operation",
        description="The same work started again while it is under way answers the first, with `new` false.",
        tags=["operations"],
        request=takes(StartBody),
        responses=answers(StartOut, 201),
    )
    def post(self, request: Request) -> Response:
        body = read(request, StartBody)
        started = services.start(
            self.actor,
            body.kind,
            body.spec,
            reason=body.reason,
            rate_per_s=body.rate_per_s,
            horizon=body.horizon,
        )
        shown = {"new": started.new, "sentence": started.sentence, "operation": operation_out(started.operation)}
        return Response(shown, status=status.HTTP_201_CREATED if started.new else status.HTTP_200_OK)


class DryRun(ApiView):
    @extend_schema(
        operation_id="operations_plan",
        summary="What an operation would do",
        tags=["operations"],
        request=takes(PlanBody),
        responses=answers(PlanOut),
    )
    def post(self, request: Request) -> Response:
        body = read(request, PlanBody)
        return Response(_plan(services.dry_run(self.actor, body.kind, body.spec)))


class OneOperation(ApiView):
    @extend_schema(
        operation_id="operations_read", summary="One operation", tags=["operations"], responses=answers(OperationOut)
    )
    def get(self, request: Request, operation_id: int) -> Response:
        return Response(operation_out(services.operation(self.actor, operation_id)))


class Items(ApiView):
    @extend_schema(
        operation_id="operations_items",
        summary="What became of each thing it worked on, the newest first",
        tags=["operations"],
        parameters=[OpenApiParameter("result", enum=OperationItem.Result.values), *PAGES],
        responses={(200, "application/json"): page_of(described(ItemOut)), **REFUSED},
    )
    def get(self, request: Request, operation_id: int) -> Response:
        rows = services.items(self.actor, services.operation(self.actor, operation_id))
        if result := request.GET.get("result"):
            rows = rows.filter(result=result)
        return self.page(rows, _item)


class Pause(ApiView):
    @extend_schema(
        operation_id="operations_pause",
        summary="Hold an operation",
        tags=["operations"],
        request=takes(ReasonBody),
        responses=answers(OperationOut),
    )
    def post(self, request: Request, operation_id: int) -> Response:
        return Response(operation_out(services.pause(self.actor, operation_id, read(request, ReasonBody).reason)))


class Resume(ApiView):
    @extend_schema(
        operation_id="operations_resume",
        summary="Let an operation go on",
        tags=["operations"],
        request=takes(ReasonBody),
        responses=answers(OperationOut),
    )
    def post(self, request: Request, operation_id: int) -> Response:
        return Response(operation_out(services.resume(self.actor, operation_id, read(request, ReasonBody).reason)))


class Cancel(ApiView):
    @extend_schema(
        operation_id="operations_cancel",
        summary="End an operation; what was done stays done",
        tags=["operations"],
        request=takes(ReasonBody),
        responses=answers(OperationOut),
    )
    def post(self, request: Request, operation_id: int) -> Response:
        return Response(operation_out(services.cancel(self.actor, operation_id, read(request, ReasonBody).reason)))


urlpatterns = [
    path("operations", Operations.as_view(), name="operations"),
    path("operations/plan", DryRun.as_view(), name="operation-plan"),
    path("operations/<int:operation_id>", OneOperation.as_view(), name="operation"),
    path("operations/<int:operation_id>/items", Items.as_view(), name="operation-items"),
    path("operations/<int:operation_id>/pause", Pause.as_view(), name="operation-pause"),
    path("operations/<int:operation_id>/resume", Resume.as_view(), name="operation-resume"),
    path("operations/<int:operation_id>/cancel", Cancel.as_view(), name="operation-cancel"),
]
