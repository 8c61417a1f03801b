"""The archive over HTTP: how each topic stands, and whether it is archived."""

from __future__ import annotations

from typing import Any

import msgspec
from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.clock import to_rfc3339
from engine.pipeline.lake.state import Kind
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, require
from hbus_console.api.answers import PAGES, REFUSED, answers, described, page_of, plain, read, takes
from hbus_console.api.bodies import ReasonBody
from hbus_console.api.views import ApiView
from hbus_console.pipelines.services import archive_topic, stop_archiving
from hbus_console.pipelines.standing import Standings, Waiting, size_told, topics_seen
from hbus_console.pipelines.the_lake import lake
from hbus_console.topics.lookup import topic as known_topic
from hbus_console.topics.models import Topic


class ArchiveStandingOut(msgspec.Struct):
    """How a topic stands in the archive. ``waiting`` is what it holds and the lake has not; null where the store does
    not say, and of a topic that is not archived; ``unspooled`` of these are still in a transport that forgets what is
    settled, such as NSQ: null where it does not say, and of a topic on another. ``lost`` messages were gone before they
    were archived. ``bytes`` and ``files`` count what the ledger tells, too: up to ``ledger_upto`` that so many were
    ``published``, and so much of ``deliveries``; ``ledger_lost`` rows of that were gone before. ``bytes`` is null where
    the topic masks what one may not reveal: it would tell that apart."""

    topic: str
    archived: bool
    messages: int
    bytes: int | None
    files: int
    first_day: str | None
    last_day: str | None
    upto: str | None
    archived_at: str | None
    waiting: int | None
    unspooled: int | None
    lost: int
    uncounted_losses: int
    published: int
    deliveries: int
    ledger_upto: str | None
    ledger_lost: int
    ledger_uncounted_losses: int


def shape(told: Standings, topic: Topic, who: Actor) -> dict[str, Any]:
    it = told.of(topic)
    waiting = told.waiting(topic) if it.archived else Waiting(None, None)
    out = ArchiveStandingOut(
        topic=topic.name,
        archived=it.archived,
        messages=it.messages,
        bytes=size_told(who, it),
        files=it.files,
        first_day=it.first_day or None,
        last_day=it.last_day or None,
        upto=to_rfc3339(it.upto_ms) if it.upto_ms else None,
        archived_at=to_rfc3339(it.archived_ms) if it.archived_ms else None,
        waiting=waiting.messages,
        unspooled=waiting.unspooled,
        lost=it.lost,
        uncounted_losses=it.uncounted_losses,
        published=it.rows[Kind.PUBLISHED],
        deliveries=it.rows[Kind.DELIVERIES],
        ledger_upto=to_rfc3339(it.ledger_upto_ms) if it.ledger_upto_ms else None,
        ledger_lost=it.ledger_lost,
        ledger_uncounted_losses=it.ledger_uncounted_losses,
    )
    return plain(out)


class Archive(ApiView):
    @extend_schema(
        operation_id="archive_list",
        summary="How every topic stands in the archive",
        tags=["archive"],
        parameters=PAGES,
        responses={(200, "application/json"): page_of(described(ArchiveStandingOut)), **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        told, who = Standings(lake().state(), in_haste=True), self.actor
        return self.page(topics_seen(who), lambda topic: shape(told, topic, who), ordering="name")


class ArchiveOfTopic(ApiView):
    @extend_schema(
        operation_id="archive_read",
        summary="How one topic stands in the archive",
        tags=["archive"],
        responses=answers(ArchiveStandingOut),
    )
    def get(self, request: Request, topic: str) -> Response:
        require(self.actor, VIEW, topic)
        return self._told(topic)

    @extend_schema(
        operation_id="archive_start",
        summary="Have a topic archived, with all that it holds",
        tags=["archive"],
        request=takes(ReasonBody),
        responses=answers(ArchiveStandingOut),
    )
    def put(self, request: Request, topic: str) -> Response:
        archive_topic(self.actor, topic, read(request, ReasonBody).reason)
        return self._told(topic)

    @extend_schema(
        operation_id="archive_stop",
        summary="Have a topic archived no further",
        description="What the lake has of it stays.",
        tags=["archive"],
        request=takes(ReasonBody),
        responses=answers(ArchiveStandingOut),
    )
    def delete(self, request: Request, topic: str) -> Response:
        stop_archiving(self.actor, topic, read(request, ReasonBody).reason)
        return self._told(topic)

    def _told(self, topic: str) -> Response:
        return Response(shape(Standings(lake().state(), in_haste=True), known_topic(topic), self.actor))


urlpatterns = [
    path("archive/topics", Archive.as_view(), name="archive"),
    path("archive/topics/<str:topic>", ArchiveOfTopic.as_view(), name="archive-of-topic"),
]
