"""One message over HTTP by ``?id=``: a producer chooses the ids, and not each can stand in the path of an address."""

from __future__ import annotations

from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.api.views import ApiView
from hbus_console.messages.api import LIFE, REVEAL, TIMELINE, WHOSE, life, reveal, timeline

_NAMED = [
    OpenApiParameter(
        "id",
        required=True,
        description="The id, whole. Every id can be named so, also one with slashes, dots or line breaks.",
    ),
    *WHOSE,
]


class OneMessageById(ApiView):
    @extend_schema(
        operation_id="messages_life_by_id", summary="One message's whole life, by any id", parameters=_NAMED, **LIFE
    )
    def get(self, request: Request) -> Response:
        return life(self.actor, request, request.GET["id"])


class TimelineById(ApiView):
    @extend_schema(
        operation_id="messages_timeline_by_id",
        summary="What happened to one message, in order, by any id",
        parameters=_NAMED,
        **TIMELINE,
    )
    def get(self, request: Request) -> Response:
        return timeline(self.actor, request, request.GET["id"])


class RevealById(ApiView):
    answers_anew = True

    @extend_schema(
        operation_id="messages_reveal_by_id",
        summary="Show masked fields of one message, by any id",
        parameters=_NAMED,
        **REVEAL,
    )
    def post(self, request: Request) -> Response:
        return reveal(self.actor, request, request.GET["id"])


urlpatterns = [
    path("message", OneMessageById.as_view(), name="message-by-id"),
    path("message/timeline", TimelineById.as_view(), name="message-timeline-by-id"),
    path("message/reveal", RevealById.as_view(), name="message-reveal-by-id"),
]
