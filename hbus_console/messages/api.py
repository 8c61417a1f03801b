"""Messages over HTTP: searching the ledger, one message's life, a topic's log, and revealing what is masked."""

from __future__ import annotations

from typing import Any

import msgspec
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, require
from hbus_console.api.answers import FORWARD_PAGES, REFUSED, page_of, read
from hbus_console.api.pagination import forward_page, only_page, page_size
from hbus_console.api.views import ApiView
from hbus_console.messages import browsing, search, services
from hbus_console.messages import export as evidence
from hbus_console.messages.became import MOST_JUDGED
from hbus_console.ui.timerange import named_in, read_range

_TEXT = {"type": "string"}
_WHERE = "Where it lies in its topic; empty while it is delayed, and on NSQ, which tells none."
_STACK = (
    "Of a failed attempt: the places its error came through, the innermost last, and those of the exceptions it came "
    "from; 8 KiB at most, without values of variables. Empty where none was told."
)
_TIMES = [
    OpenApiParameter("range", description="15m, 1h, 3h, 24h or 7d. Without a range: all the ledger holds."),
    OpenApiParameter("from", OpenApiTypes.STR, description="RFC 3339 or epoch milliseconds."),
    OpenApiParameter("to", OpenApiTypes.STR, description="RFC 3339 or epoch milliseconds, exclusive."),
]
_SIZE = "Bytes. Null where something is masked: it would tell what is hidden apart."
_MESSAGE = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("id", "topic", "type", "source", "key", "correlation_id", "causation_id"), _TEXT),
        "trace_id": _TEXT,
        "position": {"type": "string", "description": _WHERE},
        "size": {"type": ["integer", "null"], "description": _SIZE},
        "published_at": {"type": "string", "format": "date-time"},
        "due_at": {"type": ["string", "null"], "format": "date-time"},
        "outcome": {
            "type": "object",
            "description": "Settled by, dead in, retrying in (or parked there, until a person decides), done with and "
            "nobody told in, failed attempts, repeats.",
        },
    },
}
_PAGE = page_of(_MESSAGE)
_MOMENT = {
    "type": "object",
    "properties": {
        "at": {"type": "string", "format": "date-time"},
        **dict.fromkeys(("kind", "subscription", "error", "message_id", "sentence"), _TEXT),
        "stack": {"type": "string", "description": _STACK},
        "attempt": {"type": "integer"},
        "audit_entry": {"type": ["integer", "null"]},
    },
}
_PAYLOAD = {
    "type": ["object", "null"],
    "properties": {
        "form": {"enum": ["json", "text", "bytes", "none"]},
        "value": {},
        "size": {"type": ["integer", "null"], "description": _SIZE},
        "masked": {"type": "array", "items": _TEXT, "description": "What is hidden; `*` is the whole payload."},
    },
}
_LIFE = {
    "type": "object",
    "properties": {
        "id": _TEXT,
        "topic": _TEXT,
        "other_topics": {"type": "array", "items": _TEXT, "description": "Others with a message of this id."},
        "ledger": {"type": ["object", "null"]},
        "envelope": {"type": ["object", "null"]},
        "payload": _PAYLOAD,
        "gone": {"type": "string", "description": "Why there is no payload any more."},
        "timeline": {"type": "array", "items": _MOMENT},
        "more_events": {"type": "integer"},
        "dead_letters": {"type": "array", "items": {"type": "object"}},
        "cause": {"type": ["object", "null"]},
        "effects": {"type": "array", "items": _MESSAGE},
    },
}
_SCAN = page_of(
    {"type": "object"},
    scanned={"type": "integer"},
    matched={"type": "integer"},
    stopped={"type": "string", "description": "Why it looked no further."},
    back_to={"type": ["string", "null"], "format": "date-time"},
)


WHOSE = [
    OpenApiParameter(
        "topic",
        description="Publishers choose ids, so several topics may have a message of this one. Left out: the newest.",
    ),
    OpenApiParameter("source", description="Likewise of several sources in one topic."),
]


class RevealBody(msgspec.Struct, forbid_unknown_fields=True):
    """Why, and which of the masked fields; all of them when none is named."""

    reason: str = ""
    fields: list[str] = []


#: What the endpoints of one message have in common, whichever way it is named.
LIFE: dict[str, Any] = {
    "description": "Ledger, envelope, payload (masked), timeline, dead letters, cause and effects.",
    "tags": ["messages"],
    "responses": {(200, "application/json"): _LIFE, **REFUSED},
}
TIMELINE: dict[str, Any] = {
    "tags": ["messages"],
    "responses": {(200, "application/json"): page_of(_MOMENT), **REFUSED},
}
REVEAL: dict[str, Any] = {
    "description": "Needs a reason. The audit entry is written before the answer is given.",
    "tags": ["messages"],
    "request": {
        "application/json": {
            "type": "object",
            "required": ["reason"],
            "properties": {"reason": _TEXT, "fields": {"type": "array", "items": _TEXT}},
            "additionalProperties": False,
        }
    },
    "responses": {
        (200, "application/json"): {
            "type": "object",
            "properties": {"payload": _PAYLOAD, "audit_entry": {"type": "integer"}},
        },
        **REFUSED,
    },
}


def life(actor: Actor, request: Request, message_id: str) -> Response:
    return Response(evidence.life_as_json(services.life(actor, message_id, *_whose(request))))


def timeline(actor: Actor, request: Request, message_id: str) -> Response:
    moments = services.timeline(actor, message_id, *_whose(request))
    return only_page([evidence.moment_as_json(moment) for moment in moments])


def reveal(actor: Actor, request: Request, message_id: str) -> Response:
    body = read(request, RevealBody)
    topic, source = _whose(request)
    found = services.reveal(actor, message_id, body.reason, tuple(body.fields), topic_name=topic, source=source)
    answer = Response({"payload": evidence.payload_as_json(found.payload), "audit_entry": found.entry.seq})
    answer["Cache-Control"] = "no-store"
    return answer


def _whose(request: Request) -> tuple[str, str]:
    return request.GET.get("topic", ""), request.GET.get("source", "")


def _times(request: Request) -> tuple[int | None, int | None]:
    if not named_in(request._request):
        return None, None
    span = read_range(request._request, zoned=True)
    return span.start_ms, None if span.moving else span.end_ms


class Messages(ApiView):
    @extend_schema(
        operation_id="messages_search",
        summary="Search the message ledger, newest first",
        tags=["messages"],
        parameters=[
            OpenApiParameter("id", description="A message id, or its beginning (6 characters or more)."),
            OpenApiParameter("key"),
            OpenApiParameter("correlation"),
            OpenApiParameter("topic"),
            OpenApiParameter("type"),
            OpenApiParameter(
                "repeated",
                enum=["any", "publish", "delivery"],
                description=(
                    "Only what was published again under the same idempotency key, what was delivered again after an "
                    "inbox had seen it, or either. Without an id, key or correlation, newest repetition first, and "
                    "the time range is that of the repetition."
                ),
            ),
            OpenApiParameter(
                "outcome",
                enum=["dead", "retrying", "unsettled", "nobody-told", "lost"],
                description=(
                    "Only what died in a subscription, what failed in one that is not done with it, what a "
                    "subscription is not done with, what one is done with and nobody told how, or what its store "
                    "lost before. All but the "
                    "unsettled come by when that happened, or was found, and without an id, key or correlation the "
                    "time range is that. For the unsettled one request "
                    f"judges {MOST_JUDGED:,} messages at most: a page may be short, or empty, and `next` goes on. Not "
                    "together with `repeated`."
                ),
            ),
            *_TIMES,
            *FORWARD_PAGES,
        ],
        responses={(200, "application/json"): _PAGE, **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        query = search.within(search.Query.read(request.GET.dict()), *_times(request))
        size = page_size(request, search.PAGE, search.MOST)
        found = search.search(self.actor, query, request.GET.get("cursor", ""), size)
        outcomes = search.outcomes(found.messages)
        results = [evidence.message_as_json(row, outcomes[row.identity]) for row in found.messages]
        return forward_page(request, found.next_cursor, results)


class OneMessage(ApiView):
    @extend_schema(operation_id="messages_life", summary="One message's whole life", parameters=WHOSE, **LIFE)
    def get(self, request: Request, message_id: str) -> Response:
        return life(self.actor, request, message_id)


class Timeline(ApiView):
    @extend_schema(
        operation_id="messages_timeline",
        summary="What happened to one message, in order",
        parameters=WHOSE,
        **TIMELINE,
    )
    def get(self, request: Request, message_id: str) -> Response:
        return timeline(self.actor, request, message_id)


class Reveal(ApiView):
    answers_anew = True

    @extend_schema(
        operation_id="messages_reveal", summary="Show masked fields of one message", parameters=WHOSE, **REVEAL
    )
    def post(self, request: Request, message_id: str) -> Response:
        return reveal(self.actor, request, message_id)


class Log(ApiView):
    @extend_schema(
        operation_id="topics_log",
        summary="A topic's log, newest first, without consuming",
        description=(
            "With `field`, a bounded search by payload: it says how many messages it scanned, how many matched and why "
            "it stopped, and `next` continues it. Masked fields cannot be searched by."
        ),
        tags=["messages"],
        parameters=[
            OpenApiParameter("field", description="`room.code=DBL-SEA`, or `~` instead of `=` for contains."),
            *_TIMES,
            *FORWARD_PAGES,
        ],
        responses={(200, "application/json"): _SCAN, **REFUSED},
    )
    def get(self, request: Request, topic: str) -> Response:
        cursor = request.GET.get("cursor", "")
        size = page_size(request, browsing.PAGE, search.MOST)
        start_ms, end_ms = _times(request)
        if field := request.GET.get("field", ""):
            condition = browsing.Condition.read(field)
            found = services.scan(
                self.actor, topic, condition, cursor=cursor, start_ms=start_ms, end_ms=end_ms, size=size
            )
        else:
            found = services.peek(self.actor, topic, cursor=cursor, start_ms=start_ms, end_ms=end_ms, size=size)
        answer: dict[str, Any] = evidence.scan_as_json(found)
        return forward_page(request, found.next_cursor, **answer)


urlpatterns = [
    path("messages", Messages.as_view(), name="messages"),
    # A message's id is whatever its producer chose, slashes included; what ends in these words is named by ``?id=``.
    path("messages/<path:message_id>/timeline", Timeline.as_view(), name="message-timeline"),
    path("messages/<path:message_id>/reveal", Reveal.as_view(), name="message-reveal"),
    path("messages/<path:message_id>", OneMessage.as_view(), name="message"),
    path("topics/<str:topic>/log", Log.as_view(), name="topic-log"),
]
