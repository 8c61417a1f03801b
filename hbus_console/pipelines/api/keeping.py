"""How long the archive keeps a topic, over HTTP."""

from __future__ import annotations

import msgspec
from django.urls import path
from drf_spectacular.utils import extend_schema
from msgspec import UNSET, UnsetType
from rest_framework.request import Request
from rest_framework.response import Response

from engine.pipeline.lake.state import TopicRules
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import require
from hbus_console.api.answers import answers, plain, read, takes
from hbus_console.api.bodies import ReasonBody
from hbus_console.api.views import ApiView
from hbus_console.pipelines.keeping import keep, rules_of
from hbus_console.topics.lookup import topic as known_topic


class ArchiveRules(msgspec.Struct):
    """How much of a topic the archive keeps: ``keep_days`` days, the present one among them, or all where it is null.
    ``hold`` is why nothing of it may go, for retention or erasure; empty where no legal hold is on it."""

    keep_days: int | None
    hold: str


class ArchiveRulesBody(ReasonBody):
    """What is to be otherwise, and why."""

    keep_days: int | UnsetType | None = UNSET
    hold: str | UnsetType = UNSET


class RulesOfTopic(ApiView):
    @extend_schema(
        operation_id="archive_rules_read",
        summary="How long the archive keeps a topic",
        tags=["archive"],
        responses=answers(ArchiveRules),
    )
    def get(self, request: Request, topic: str) -> Response:
        require(self.actor, VIEW, topic)
        known_topic(topic)
        return _told(rules_of(topic))

    @extend_schema(
        operation_id="archive_rules_set",
        summary="Say how long the archive keeps a topic, and hold it",
        description="What is older goes with the next run of the archive, for good. Under a hold nothing goes.",
        tags=["archive"],
        request=takes(ArchiveRulesBody),
        responses=answers(ArchiveRules),
    )
    def patch(self, request: Request, topic: str) -> Response:
        body = read(request, ArchiveRulesBody)
        return _told(keep(self.actor, topic, body.given("reason"), body.reason))


def _told(rules: TopicRules) -> Response:
    return Response(plain(ArchiveRules(rules.keep_days, rules.hold)))


urlpatterns = [path("archive/topics/<str:topic>/rules", RulesOfTopic.as_view(), name="archive-rules")]
