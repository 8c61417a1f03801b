"""Operations over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.clock import SystemClock
from engine.core.subject import Subject
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, require
from hbus_console.api.answers import PAGES, REFUSED, answers, described, fields_of, page_of, read, takes
from hbus_console.api.bodies import Body, ReasonBody
from hbus_console.api.subjects import message_of, namespace_as_topic, subscription_of, topic_of
from hbus_console.api.views import ApiView
from hbus_console.evidence import freshness
from hbus_console.operations import guarded, reading, services
from hbus_console.operations.kinds import OperationKind, Plan, Sample, Taken, installed_kind, kind_named
from hbus_console.operations.models import Operation, OperationItem

_clock = SystemClock()


class PlanBody(Body):
    """What would be done: a kind (``redrive``, ``discard`` …) and what it is to work on."""

    kind: str
    spec: dict[str, Any]


class StartBody(Body):
    """The same, with why, and how many a second at most (0: as fast as it goes; left out: the kind's own, slow rate).

    After ``first`` things it holds itself (0: it does not), so that you can look at what became of them and resume it.
    With the ``horizon`` that the dry run answered, nothing is touched that came after it (none: what is there now).
    """

    kind: str
    spec: dict[str, Any]
    reason: str = ""
    rate_per_s: int | None = None
    first: int = 0
    horizon: int | None = None


class SampleOut(msgspec.Struct):
    """One thing it would touch. ``message_id``, ``topic`` and ``subscription`` are empty where there is none."""

    subject: str
    message_id: str
    topic: str
    subscription: str
    at: datetime
    detail: str


class FindingOut(msgspec.Struct):
    """One line of what the dry run found out; ``note`` says what follows from it."""

    label: str
    value: int | str
    note: str


class TakenOut(msgspec.Struct):
    """What an unfinished operation already has of the choice; ``operation`` is null where you may not see it."""

    operation: int | None
    state: str
    count: int
    sentence: str


class PlanOut(msgspec.Struct):
    """The dry run. With an ``obstacle`` it cannot be started; a start with its ``horizon`` touches no more.

    ``taken`` is what is left to operations under way, and is not in ``total``.

    ``effect`` says what happens to each thing, and whether that can be undone; ``sampled`` of how many things the
    findings tell, empty: of all; ``takes_s`` how long it takes at ``rate_per_s``, the rate where none is given.
    """

    total: int | None
    samples: list[SampleOut]
    warnings: list[str]
    scanned: str
    taken: list[TakenOut]
    obstacle: str
    horizon: int | None
    effect: str
    findings: list[FindingOut]
    sampled: str
    rate_per_s: int
    takes_s: float | None


class OperationOut(msgspec.Struct):
    """One operation. ``total`` is 0 when it could not be told before. What its ``spec`` asks about masked fields is
    left out, as ``payload.guest.name …``, for who may not reveal them.

    ``copies`` is what it published; ``settled``, ``died`` (again), ``unhandled`` (expired, skipped, wanted by nobody)
    and ``unknown`` say what became of it, and the rest is ``waiting``, of which ``retrying`` failed before. In the
    state ``settling`` all is done but not all of that is decided; ``outcome`` says it in words. ``decided_at`` is when
    it was, or when waiting was given up.

    ``namespace`` is that of all it works on, empty when there are several; ``topic`` is it too where it is a topic's.
    """

    id: int
    subject: str
    kind: str
    title: str
    spec: dict[str, Any]
    namespace: str
    topic: str
    state: str
    actor: str
    reason: str
    audit_seq: int
    rate_per_s: int
    first: int
    total: int
    done: int
    skipped: int
    failed: int
    scanned: int
    copies: int
    settled: int
    died: int
    unhandled: int
    unknown: int
    waiting: int
    retrying: int
    outcome: str
    note: str
    last_error: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    decided_at: datetime | None


class StartOut(msgspec.Struct):
    """``new`` is false when the same work was under way already: then nothing was started."""

    new: bool
    sentence: str
    operation: OperationOut


class ItemOut(msgspec.Struct):
    """What became of one thing. ``became`` is the subject of what was made of it, ``new_message_id`` its id where that
    is a message, and ``outcome`` its fate; ``message_id``, ``topic`` and ``subscription`` are empty where the thing has
    to do with none.
    """

    subject: str
    message_id: str
    topic: str
    subscription: str
    result: str
    detail: str
    became: str
    new_message_id: str
    outcome: str
    outcome_detail: str
    at: datetime


def operation_out(actor: Actor, row: Operation) -> dict[str, Any]:
    """An operation as it is shown to ``actor``."""
    return operations_out(actor, [row])[0]


def operations_out(actor: Actor, rows: Sequence[Operation]) -> list[dict[str, Any]]:
    """Likewise several: a fixed number of queries, and one for each that asks about what ``actor`` may not reveal."""
    sentences = reading.sentences(rows, freshness.facts(_clock.now_ms()))
    specs = services.specs_for(actor, rows)
    return [_out(row, sentences.get(row.pk, ""), specs[row.pk]) for row in rows]


def _out(row: Operation, sentence: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    topic = namespace_as_topic(kind_named(row.kind).works_on, row.namespace)
    told = {"subject": str(row.subject), "spec": spec, "topic": topic, "outcome": sentence}
    return {**fields_of(row, OperationOut, *told), **told}


def _item(row: OperationItem) -> dict[str, Any]:
    return {
        **_named(row.subject, row.facets),
        "result": row.result,
        "detail": row.detail,
        "became": row.became,
        "new_message_id": message_of(row.made),
        "outcome": row.outcome,
        "outcome_detail": row.outcome_detail,
        "at": row.at,
    }


def _sample(found: Sample) -> dict[str, Any]:
    return {**_named(found.subject, found.facets), "at": found.at, "detail": found.detail}


def _named(subject: Subject, facets: Mapping[str, str]) -> dict[str, str]:
    """A subject, and the parts of it under the names that version 1 of the API has always given them."""
    return {
        "subject": str(subject),
        "message_id": message_of(subject),
        "topic": topic_of(subject),
        "subscription": subscription_of(subject) or facets.get("subscription", ""),
    }


def _taken(found: Taken, visible: bool) -> dict[str, Any]:
    return {
        "operation": found.operation.pk if visible else None,
        "state": found.operation.state,
        "count": found.count,
        "sentence": f"{found if visible else found.of_another}.",
    }


def _plan(actor: Actor, found: Plan, kind: OperationKind) -> dict[str, Any]:
    rate = kind.rate_per_s
    return {
        "total": found.total,
        "samples": [_sample(sample) for sample in found.samples],
        "warnings": list(found.warnings),
        "scanned": found.scanned,
        "taken": [_taken(*each) for each in services.shown_of(actor, found.taken or ())],
        "obstacle": found.obstacle,
        "horizon": found.horizon,
        "effect": kind.effect,
        "findings": [{"label": each.label, "value": each.value, "note": each.note} for each in found.findings],
        "sampled": found.sampled,
        "rate_per_s": rate,
        "takes_s": found.total / rate if found.total is not None and rate else None,
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
        answer = self.page(rows, lambda row: row)
        # What became of them is asked for all of the page together.
        answer.data["results"] = operations_out(self.actor, answer.data["results"])
        return answer

    @extend_schema(
        operation_id="operations_start",
        summary="Start an operation",
        description=(
            "The same work started again while it is under way answers the first, with `new` false. Dead letters that "
            "an unfinished operation has are left to it: only the others are worked on."
        ),
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
            first=body.first,
            horizon=body.horizon,
        )
        told = operation_out(self.actor, started.operation)
        shown = {"new": started.new, "sentence": started.sentence, "operation": told}
        return Response(shown, status=status.HTTP_201_CREATED if started.new else status.HTTP_200_OK)


class DryRun(ApiView):
    answers_anew = True

    @extend_schema(
        operation_id="operations_plan",
        summary="What an operation would do",
        tags=["operations"],
        request=takes(PlanBody),
        responses=answers(PlanOut),
    )
    def post(self, request: Request) -> Response:
        body = read(request, PlanBody)
        found = services.dry_run(self.actor, body.kind, body.spec)
        return Response(_plan(self.actor, found, installed_kind(body.kind)))


class OneOperation(ApiView):
    @extend_schema(
        operation_id="operations_read", summary="One operation", tags=["operations"], responses=answers(OperationOut)
    )
    def get(self, request: Request, operation_id: int) -> Response:
        return Response(operation_out(self.actor, services.operation(self.actor, operation_id)))


class Items(ApiView):
    @extend_schema(
        operation_id="operations_items",
        summary="What became of each thing it worked on, the newest first",
        description="Of one that asks about masked fields they are told to who may reveal these, for what fits tells.",
        tags=["operations"],
        parameters=[
            OpenApiParameter("result", enum=OperationItem.Result.values),
            OpenApiParameter("outcome", enum=OperationItem.Outcome.values),
            *PAGES,
        ],
        responses={(200, "application/json"): page_of(described(ItemOut)), **REFUSED},
    )
    def get(self, request: Request, operation_id: int) -> Response:
        found = services.operation(self.actor, operation_id)
        guarded.require_all(self.actor, found)
        rows = services.items(self.actor, found)
        if result := request.GET.get("result"):
            rows = rows.filter(result=result)
        if outcome := request.GET.get("outcome"):
            rows = rows.filter(outcome=outcome)
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
        moved = services.pause(self.actor, operation_id, read(request, ReasonBody).reason)
        return Response(operation_out(self.actor, moved))


class Resume(ApiView):
    @extend_schema(
        operation_id="operations_resume",
        summary="Let an operation go on",
        tags=["operations"],
        request=takes(ReasonBody),
        responses=answers(OperationOut),
    )
    def post(self, request: Request, operation_id: int) -> Response:
        moved = services.resume(self.actor, operation_id, read(request, ReasonBody).reason)
        return Response(operation_out(self.actor, moved))


class Cancel(ApiView):
    @extend_schema(
        operation_id="operations_cancel",
        summary="End an operation; what was done stays done",
        tags=["operations"],
        request=takes(ReasonBody),
        responses=answers(OperationOut),
    )
    def post(self, request: Request, operation_id: int) -> Response:
        moved = services.cancel(self.actor, operation_id, read(request, ReasonBody).reason)
        return Response(operation_out(self.actor, moved))


urlpatterns = [
    path("operations", Operations.as_view(), name="operations"),
    path("operations/plan", DryRun.as_view(), name="operation-plan"),
    path("operations/<int:operation_id>", OneOperation.as_view(), name="operation"),
    path("operations/<int:operation_id>/items", Items.as_view(), name="operation-items"),
    path("operations/<int:operation_id>/pause", Pause.as_view(), name="operation-pause"),
    path("operations/<int:operation_id>/resume", Resume.as_view(), name="operation-resume"),
    path("operations/<int:operation_id>/cancel", Cancel.as_view(), name="operation-cancel"),
]
