"""Publishing over HTTP: one message, or a batch that answers per message."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from engine.bus.errors import PublishFailed
from engine.bus.producer import BatchItem, Receipt
from engine.core.clock import to_rfc3339
from engine.core.errors import BadInput, HbusError, OutcomeUnknown
from hbus_console.access import context
from hbus_console.access.permissions import Actor, require
from hbus_console.access.problem_details import CONTENT_TYPE, problem_details
from hbus_console.api import idempotency, problems
from hbus_console.api.parsing import bounded, refuse_more_values
from hbus_console.api.views import ApiView
from hbus_console.publishing.docs import BATCH_REQUEST, BATCH_RESPONSE, CLOUDEVENT_SCHEMA, RECEIPT, REQUEST
from hbus_console.publishing.envelopes import CLOUDEVENT, CLOUDEVENT_BATCH, Parsed, parse_batch, parse_one
from hbus_console.publishing.feature import PUBLISH
from hbus_console.publishing.producer import shared_producer
from hbus_console.publishing.services import charged
from hbus_console.topics import catalog
from hbus_console.topics.payloads import MOST_VALUES
from hbus_console.wiring import bus


class _Bytes(BaseParser):
    """Hands the body over unread: :mod:`hbus_console.publishing.envelopes` reads it once, strictly."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> dict[str, bytes]:
        body = bounded(stream)
        refuse_more_values(body, MOST_VALUES)
        return {"body": body}


class JsonBytes(_Bytes):
    media_type = "application/json"


class CloudEventBytes(_Bytes):
    media_type = CLOUDEVENT


class CloudEventBatchBytes(_Bytes):
    media_type = CLOUDEVENT_BATCH


def publish(actor: Actor, topic: str, items: Sequence[Parsed | HbusError]) -> list[Receipt | HbusError]:
    """Publish what could be read, keep the place of what could not. Raises ``Forbidden`` and ``QuotaExceeded``."""
    require(actor, PUBLISH, topic)
    readable = [item for item in items if isinstance(item, Parsed)]
    batch = [BatchItem(item.payload, item.options, body=item.body, content_type=item.content_type) for item in readable]
    with charged(actor, topic, len(batch)) as give_back:
        found = shared_producer().publish_batch(topic, batch)
        give_back(sum(isinstance(each, HbusError) and not isinstance(each, OutcomeUnknown) for each in found))
    answers = iter(found)
    return [_named(next(answers), item.names) if isinstance(item, Parsed) else item for item in items]


def _named(answer: Receipt | HbusError, names: Mapping[str, str]) -> Receipt | HbusError:
    """The answer; a refusal names what the request named."""
    if isinstance(answer, HbusError):
        field, dot, inner = answer.field.partition(".")
        answer.field = names.get(answer.field) or f"{names.get(field, field)}{dot}{inner}"
    return answer


def _defaults(request: Request, actor: Actor) -> Mapping[str, str]:
    _require_no_attributes(request)
    given = {
        "correlation_id": context.current().correlation_id,
        "traceparent": request.headers.get("traceparent", ""),
        "tracestate": request.headers.get("tracestate", ""),
    }
    if key := request.headers.get(idempotency.HEADER, ""):
        # From the same parts as the API's own record of the key, so that its repeat finds in the store what the
        # first may have left there, whatever became of the answer.
        parts = "\n".join((actor.name, f"{request.method} {request.path}", key))
        given["idempotency_key"] = f"request:{hashlib.sha256(parts.encode()).hexdigest()}"
        given["idempotency_at_least_s"] = str(round(idempotency.KNOWN_FOR.total_seconds()))
    return given


def _require_no_attributes(request: Request) -> None:
    """Refuse attributes of a CloudEvent in headers: nobody would read them."""
    for name in request.headers:
        if name.lower().startswith("ce-"):
            raise BadInput(
                f"{name} is an attribute of a CloudEvent in binary mode, which is not taken.",
                remedy=f"Send it in structured mode, as {CLOUDEVENT}, or as {CLOUDEVENT_BATCH}.",
                field=name.lower(),
            )


def _body(request: Request) -> bytes:
    body: bytes = cast(dict[str, bytes], request.data).get("body", b"")
    return body


def _media_type(request: Request) -> str:
    return str(request.content_type or "").partition(";")[0].strip().lower()


def _receipt(receipt: Receipt) -> dict[str, Any]:
    body = {
        "id": receipt.message_id,
        "topic": receipt.topic,
        "position": receipt.position,
        "status": str(receipt.status),
    }
    if receipt.due_ms:
        body["due"] = to_rfc3339(receipt.due_ms)
    return body


_CODES = {
    "stored": status.HTTP_201_CREATED,
    "delayed": status.HTTP_202_ACCEPTED,
    "duplicate": status.HTTP_200_OK,
}
_IDEMPOTENCY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="Repeating the request with the same key gives the first answer and has no second effect, for a day.",
)


class _PublishingView(ApiView):
    """Publishes under keys made of the request's, so that the store itself knows a repeat."""

    def repeat(self, first_tried: datetime) -> idempotency.Repeat:
        policy = catalog.shared().topic(self.kwargs["topic"])
        able = bus.transport(policy.transport).capabilities
        if able.idempotent_publish and able.exact_keys and not catalog.moved_since(policy.name, first_tried):
            return idempotency.Repeat.KNOWN_BY_ITS_EFFECT
        return idempotency.Repeat.TOLD_BY_NOTHING


class PublishView(_PublishingView):
    """One message."""

    parser_classes = [JsonBytes, CloudEventBytes]

    @extend_schema(
        operation_id="messages_publish",
        summary="Publish one message",
        tags=["messages"],
        parameters=[_IDEMPOTENCY],
        request={"application/json": REQUEST, CLOUDEVENT: CLOUDEVENT_SCHEMA},
        responses={
            (201, "application/json"): RECEIPT,
            (202, "application/json"): RECEIPT,
            (200, "application/json"): RECEIPT,
            (422, CONTENT_TYPE): problems.PROBLEM,
        },
    )
    def post(self, request: Request, topic: str) -> Response:
        # Before the body is read: who may not publish here makes nobody take megabytes.
        require(self.actor, PUBLISH, topic)
        item = parse_one(_media_type(request), _body(request), _defaults(request, self.actor))
        answer = publish(self.actor, topic, [item])[0]
        if isinstance(answer, HbusError):
            self.undone = certainly_undone([answer])
            raise answer
        return Response(_receipt(answer), status=_CODES[str(answer.status)])


class PublishBatchView(_PublishingView):
    """Many messages; each is stored or refused by itself, in order."""

    parser_classes = [JsonBytes, CloudEventBatchBytes]

    @extend_schema(
        operation_id="messages_publish_batch",
        summary="Publish up to 1,000 messages",
        tags=["messages"],
        parameters=[_IDEMPOTENCY],
        request={
            "application/json": BATCH_REQUEST,
            CLOUDEVENT_BATCH: {"type": "array", "items": CLOUDEVENT_SCHEMA},
        },
        responses={(200, "application/json"): BATCH_RESPONSE, (422, CONTENT_TYPE): problems.PROBLEM},
    )
    def post(self, request: Request, topic: str) -> Response:
        require(self.actor, PUBLISH, topic)
        items = parse_batch(_media_type(request), _body(request), _defaults(request, self.actor))
        answers = publish(self.actor, topic, items)
        results = [_result(index, answer) for index, answer in enumerate(answers)]
        counts: dict[str, int] = {}
        for row in results:
            counts[row["status"]] = counts.get(row["status"], 0) + 1
        self.undone = certainly_undone(answers)
        if not self.undone and counts.keys() & {"failed", "unknown"}:
            # What the store did not take, or may not have, a repeat publishes, where it cannot publish twice what it
            # has taken.
            self.final = self.repeat(datetime.now(UTC)) is not idempotency.Repeat.KNOWN_BY_ITS_EFFECT
        return Response({"topic": topic, "counts": counts, "results": results})


def certainly_undone(answers: Sequence[Receipt | HbusError]) -> bool:
    """Whether nothing of a publish was stored, for certain, and the store is to blame for some of it."""
    # A duplicate counts as stored: what it repeats may be forgotten when this is tried again.
    failed = sum(isinstance(each, PublishFailed) for each in answers)
    refused = sum(isinstance(each, BadInput) for each in answers)
    return failed > 0 and failed + refused == len(answers)


def _result(index: int, answer: Receipt | HbusError) -> dict[str, Any]:
    if isinstance(answer, Receipt):
        return {"index": index, **_receipt(answer)}
    code, title = problems.describe(answer)
    return {
        "index": index,
        "status": _status(answer),
        "problem": problem_details(code, title, answer.what, field=answer.field, remedy=answer.remedy),
    }


def _status(error: HbusError) -> str:
    if isinstance(error, BadInput):
        return "refused"
    return "unknown" if isinstance(error, OutcomeUnknown) else "failed"


urlpatterns = [
    path("topics/<str:topic>/messages", PublishView.as_view(), name="publish"),
    path("topics/<str:topic>/messages/batch", PublishBatchView.as_view(), name="publish-batch"),
]
