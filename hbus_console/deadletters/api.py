"""Dead letters over HTTP."""

from __future__ import annotations

from typing import Any

import msgspec
from django.http.response import HttpResponseBase
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, require
from hbus_console.api.acts import reason_act
from hbus_console.api.answers import FORWARD_PAGES, REFUSED, page_of, read, takes
from hbus_console.api.bodies import ReasonBody
from hbus_console.api.pagination import forward_page, only_page, page_size
from hbus_console.api.views import ApiView
from hbus_console.deadletters import groups, reading, services
from hbus_console.deadletters.models import DeadLetter
from hbus_console.topics.models import Topic
from hbus_console.ui.streaming import MEDIA_TYPE, json_lines
from hbus_console.ui.timerange import read_range

_TEXT = {"type": "string"}
_FILTERS = [
    OpenApiParameter("state", enum=list(DeadLetter.State.values), description="`dead` waits for a decision."),
    OpenApiParameter("topic"),
    OpenApiParameter("subscription"),
    OpenApiParameter("owner", description="The team that owns the subscription."),
    OpenApiParameter("cause", description="Part of the cause."),
    OpenApiParameter("fingerprint", description="The cause; one group together with `topic` and `subscription`."),
]
_LETTER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "state": {"enum": list(DeadLetter.State.values)},
        **dict.fromkeys(("topic", "subscription", "message_id", "source", "position", "key"), _TEXT),
        **dict.fromkeys(("correlation_id", "cause", "fingerprint"), _TEXT),
        "error": {
            "type": "string",
            "description": "Its cause alone for who may not reveal what the topic masks; so in `history`.",
        },
        "attempts": {"type": "integer"},
        "history": {"type": "array", "items": {"type": "object"}},
        "first_failed_at": {"type": "string", "format": "date-time"},
        "died_at": {"type": "string", "format": "date-time"},
        "envelope": {"type": ["object", "null"]},
        "payload": {"description": "Masked as the topic says."},
        "masked": {"type": "array", "items": _TEXT},
    },
    "additionalProperties": True,
}
_PAGE = page_of(_LETTER)
_VARYING = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The words of the message that lead to it."},
        "different": {
            "type": ["integer", "null"],
            "description": "How many different values there are; null where they are masked.",
        },
        "masked": {
            "type": "boolean",
            "description": "The topic masks something, which may stand here; no value is told.",
        },
        "values": {
            "type": "array",
            "description": "The most frequent; none when every letter has a value of its own.",
            "items": {"type": "object", "properties": {"value": _TEXT, "count": {"type": "integer"}}},
        },
    },
}
_GROUP = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("fingerprint", "topic", "subscription"), _TEXT),
        "owner": {"type": ["string", "null"]},
        "cause": {
            "type": "string",
            "description": "The error class and its message without what differs from case to case.",
        },
        "title": {"type": "string", "description": "The cause with what all letters have in common filled in."},
        "varying": {"type": "array", "description": "What differs among the letters.", "items": _VARYING},
        "latest": {
            "type": "integer",
            "description": "So many of the newest letters were looked at for `title` and `varying`; 0: all.",
        },
        "count": {"type": "integer"},
        "first": {"type": "string", "format": "date-time"},
        "last": {"type": "string", "format": "date-time"},
        "arrivals": {"type": "array", "items": {"type": "integer"}},
    },
}
_GROUPS = page_of(
    _GROUP,
    letters={"type": "integer"},
    more={"type": "boolean", "description": "More groups fit than are listed."},
)
_REASON = takes(ReasonBody)
_EDIT = {
    "application/json": {
        "type": "object",
        "properties": {"payload": {}, "reason": _TEXT},
        "required": ["payload", "reason"],
    }
}
_DECISION = {
    "type": "object",
    "properties": {
        "done": {"type": "boolean", "description": "False when somebody had decided before; nothing was changed then."},
        "sentence": _TEXT,
        "letter": _LETTER,
    },
}


class EditBody(msgspec.Struct, forbid_unknown_fields=True):
    """The payload to send instead, and why."""

    payload: Any
    reason: str = ""


class Letters(ApiView):
    @extend_schema(
        operation_id="dead_letters_list",
        summary="Dead letters, newest first",
        description="A page of big payloads is shorter than `limit`; there are more as long as there is a `next`.",
        tags=["dead letters"],
        parameters=[*_FILTERS, *FORWARD_PAGES],
        responses={(200, "application/json"): _PAGE, **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        rows = groups.LetterFilters.read(request.GET.dict()).letters(self.actor)
        found = reading.full_page(rows, request.GET.get("cursor", ""), page_size(request, 50, 500))
        topics = {topic.name: topic for topic in Topic.objects.filter(name__in={row.topic for row in found.letters})}
        results = [reading.as_json(self.actor, row, topics.get(row.topic)) for row in found.letters]
        return forward_page(request, found.next_cursor, results)


class Groups(ApiView):
    @extend_schema(
        operation_id="dead_letters_groups",
        summary="Dead letters grouped by cause",
        description="Arrivals are counted over the time range, in slots of equal length.",
        tags=["dead letters"],
        parameters=[
            *_FILTERS,
            OpenApiParameter("range", description="15m, 1h (the default), 3h, 24h or 7d."),
            OpenApiParameter("from", OpenApiTypes.STR, description="RFC 3339 or epoch milliseconds."),
            OpenApiParameter("to", OpenApiTypes.STR, description="RFC 3339 or epoch milliseconds, exclusive."),
        ],
        responses={(200, "application/json"): _GROUPS, **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        span = read_range(request._request, zoned=True)
        found = groups.listing(self.actor, groups.LetterFilters.read(request.GET.dict()), span.start_ms, span.end_ms)
        return only_page([_group(group) for group in found.groups], letters=found.letters, more=found.more)


class OneLetter(ApiView):
    @extend_schema(
        operation_id="dead_letters_one",
        summary="One dead letter",
        tags=["dead letters"],
        responses={(200, "application/json"): _LETTER, **REFUSED},
    )
    def get(self, request: Request, letter_id: int) -> Response:
        return Response(_letter(self.actor, services.letter_for(self.actor, letter_id)))


class LetterAct(ApiView):
    """An endpoint that decides about a letter, once, and answers with it."""

    answers_anew = True


Redrive = reason_act(
    lambda actor, letter_id, reason: _decided(actor, services.redrive(actor, letter_id, reason)),
    operation_id="dead_letters_redrive",
    summary="Publish it again, to the subscription where it died",
    description="The copy is a new message whose `causationid` names the original. A second call does nothing.",
    tag="dead letters",
    body=_REASON,
    gives={(200, "application/json"): _DECISION, **REFUSED},
    base=LetterAct,
)
Discard = reason_act(
    lambda actor, letter_id, reason: _decided(actor, services.discard(actor, letter_id, reason)),
    operation_id="dead_letters_discard",
    summary="Decide that it shall not be handled",
    description="The letter stays, with who decided, when and why.",
    tag="dead letters",
    body=_REASON,
    gives={(200, "application/json"): _DECISION, **REFUSED},
    base=LetterAct,
)


class Edit(LetterAct):
    @extend_schema(
        operation_id="dead_letters_edit",
        summary="Publish it again with another payload",
        description=(
            "The copy is marked by `hbusedited`. The stand-in of a masked value means the stored value; changing one "
            "takes the permission to reveal it. A second call does nothing."
        ),
        tags=["dead letters"],
        request=_EDIT,
        responses={(200, "application/json"): _DECISION, **REFUSED},
    )
    def post(self, request: Request, letter_id: int) -> Response:
        body = read(request, EditBody)
        return Response(_decided(self.actor, services.redrive_edited(self.actor, letter_id, body.payload, body.reason)))


class ExportLetters(ApiView):
    @extend_schema(
        operation_id="dead_letters_export",
        summary="Dead letters as JSON lines",
        tags=["dead letters"],
        parameters=_FILTERS,
        responses={(200, MEDIA_TYPE): OpenApiTypes.STR, **REFUSED},
    )
    def get(self, request: Request) -> HttpResponseBase:
        filters = groups.LetterFilters.read(request.GET.dict())
        rows = reading.exported(self.actor, filters)
        return json_lines(request._request, rows, f"dead-letters-{filters.state}.jsonl")


def _group(group: groups.LetterGroup) -> dict[str, Any]:
    return {
        "fingerprint": group.fingerprint,
        "topic": group.topic,
        "subscription": group.subscription,
        "owner": group.owner.name if group.owner else None,
        "cause": group.cause,
        "title": group.telling.title,
        "varying": [
            {
                "name": each.name,
                "different": each.different,
                "masked": each.hidden,
                "values": [{"value": value, "count": count} for value, count in each.values],
            }
            for each in group.telling.varying
        ],
        "latest": group.telling.latest,
        "count": group.count,
        "first": group.first,
        "last": group.last,
        "arrivals": list(group.arrivals),
    }


def _letter(actor: Actor, letter: DeadLetter) -> dict[str, Any]:
    return reading.as_json(actor, letter, Topic.objects.filter(name=letter.topic).first())


def _decided(actor: Actor, decision: services.Decision) -> dict[str, Any]:
    return {"done": decision.done, "sentence": decision.sentence, "letter": _letter(actor, decision.letter)}


urlpatterns = [
    path("dead-letters", Letters.as_view(), name="dead-letters"),
    path("dead-letters/groups", Groups.as_view(), name="dead-letter-groups"),
    path("dead-letters/export", ExportLetters.as_view(), name="dead-letter-export"),
    path("dead-letters/<int:letter_id>", OneLetter.as_view(), name="dead-letter"),
    path("dead-letters/<int:letter_id>/redrive", Redrive.as_view(), name="dead-letter-redrive"),
    path("dead-letters/<int:letter_id>/edit", Edit.as_view(), name="dead-letter-edit"),
    path("dead-letters/<int:letter_id>/discard", Discard.as_view(), name="dead-letter-discard"),
]
