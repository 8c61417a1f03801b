"""Publishing over HTTP: one message, or a batch that answers per message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import time_ns
from typing import Any, cast

from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from engine.bus.producer import BatchItem, Receipt
from engine.core.clock import to_rfc3339
from engine.core.errors import BadInput, HbusError
from hbus_console.access import context
from hbus_console.access.permissions import Actor, require
from hbus_console.access.problem_details import CONTENT_TYPE, problem_details
from hbus_console.api import problems
from hbus_console.api.parsing import bounded
from hbus_console.api.views import ApiView
from hbus_console.publishing.docs import BATCH_REQUEST, BATCH_RESPONSE, CLOUDEVENT_SCHEMA, RECEIPT, REQUEST
from hbus_console.publishing.envelopes import CLOUDEVENT, CLOUDEVENT_BATCH, Parsed, parse_batch, parse_one
from hbus_console.publishing.feature import PUBLISH
from hbus_console.publishing.producer import shared_producer


class _Bytes(BaseParser):
    """Hands the body over unread: :mod:`hbus_console.publishing.envelopes` reads it once, strictly."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> dict[str, bytes]:
        return {"body": bounded(stream)}


class JsonBytes(_Bytes):
    media_type = "application/json"


class CloudEventBytes(_Bytes):
    media_type = CLOUDEVENT


class CloudEventBatchBytes(_Bytes):
    media_type = CLOUDEVENT_BATCH


def publish(actor: Actor, topic: str, items: Sequence[Parsed | HbusError]) -> list[Receipt | HbusError]:
    """Publish what could be read, keep the place of what could not. Raises ``Forbidden``."""
    require(actor, PUBLISH, topic)
    readable = [item for item in items if isinstance(item, Parsed)]
    answers = iter(
        shared_producer().publish_batch(
            topic,
            [
                BatchItem(item.payload, item.options, body=item.body, content_type=item.content_type)
                for item in readable
            ],
        )
    )
    return [_named(next(answers)) if isinstance(item, Parsed) else item for item in items]


def _named(answer: Receipt | HbusError) -> Receipt | HbusError:
    """The answer; a refusal of the payload names it as a request does."""
    if isinstance(answer, HbusError):
        field, dot, inner = answer.field.partition(".")
        answer.field = f"data{dot}{inner}" if field == "payload" else answer.field
    return answer


def _defaults(request: Request) -> Mapping[str, str]:
    return {
        "correlation_id": context.current().correlation_id,
        "traceparent": request.headers.get("traceparent", ""),
        "tracestate": request.headers.get("tracestate", ""),
        "now_ms": str(time_ns() // 1_000_000),
    }


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


class PublishView(ApiView):
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
        item = parse_one(_media_type(request), _body(request), _defaults(request))
        answer = publish(self.actor, topic, [item])[0]
        if isinstance(answer, HbusError):
            raise answer
        return Response(_receipt(answer), status=_CODES[str(answer.status)])


class PublishBatchView(ApiView):
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
        items = parse_batch(_media_type(request), _body(request), _defaults(request))
        answers = publish(self.actor, topic, items)
        results = [_result(index, answer) for index, answer in enumerate(answers)]
        counts: dict[str, int] = {}
        for row in results:
            counts[row["status"]] = counts.get(row["status"], 0) + 1
        return Response({"topic": topic, "counts": counts, "results": results})


def _result(index: int, answer: Receipt | HbusError) -> dict[str, Any]:
    if isinstance(answer, Receipt):
        return {"index": index, **_receipt(answer)}
    code, title = problems.describe(answer)
    refused = isinstance(answer, BadInput)
    return {
        "index": index,
        "status": "refused" if refused else "failed",
        "problem": problem_details(code, title, answer.what, field=answer.field, remedy=answer.remedy),
    }


urlpatterns = [
    path("topics/<str:topic>/messages", PublishView.as_view(), name="publish"),
    path("topics/<str:topic>/messages/batch", PublishBatchView.as_view(), name="publish-batch"),
]
