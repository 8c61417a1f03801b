"""Series over HTTP."""

from __future__ import annotations

import msgspec
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.clock import to_rfc3339
from engine.core.resolution import Resolution
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import require
from hbus_console.api.answers import answers, fields_of, plain
from hbus_console.api.series import SPANS, asked_spans
from hbus_console.api.views import ApiView
from hbus_console.pipelines.models import SeriesPoint
from hbus_console.pipelines.series import points, rolled_up_ms
from hbus_console.topics.handler_errors import told_whole_from
from hbus_console.topics.lookup import topic as known_topic


class SeriesPointOut(msgspec.Struct):
    """What happened in one span, which begins at ``at``. ``timed`` of those ``settled`` are known to have been
    published so long before as ``p50_ms``, ``p99_ms`` and ``longest_ms`` say; ``late_…`` is how long after it happened
    what was stored was, without those (``skewed``) of which a clock is more than five minutes off. ``bytes`` is null
    where the topic masks what one may not reveal, and of what began before there was the topic."""

    at: str
    stored: int
    bytes: int | None
    published: int
    settled: int
    retried: int
    dead: int
    timed: int
    p50_ms: float | None
    p99_ms: float | None
    longest_ms: float | None
    late_p50_ms: float | None
    late_p99_ms: float | None
    skewed: int


class SeriesOut(msgspec.Struct):
    """Of a topic, or of the subscription that is named. A span in which nothing happened has no point, and what is
    after ``rolled_up_at`` is not known yet; null: nothing is."""

    topic: str
    subscription: str
    resolution: str
    rolled_up_at: str | None
    points: list[SeriesPointOut]


class SeriesOfTopic(ApiView):
    @extend_schema(
        operation_id="archive_series",
        summary="What happened on a topic by the minute, hour or day",
        description="Of 2,000 spans at most.",
        tags=["archive"],
        parameters=[OpenApiParameter("subscription", OpenApiTypes.STR), *SPANS],
        responses=answers(SeriesOut),
    )
    def get(self, request: Request, topic: str) -> Response:
        require(self.actor, VIEW, topic)
        told_from = told_whole_from(self.actor, topic, known_topic(topic))
        subscription = request.GET.get("subscription", "")
        resolution, steps = asked_spans(request, lambda *_: Resolution.HOUR)
        rolled_ms = rolled_up_ms(topic)
        out = SeriesOut(
            topic=topic,
            subscription=subscription,
            resolution=resolution.value,
            rolled_up_at=to_rfc3339(rolled_ms) if rolled_ms else None,
            points=[
                _point(each, told_from) for each in points(topic, subscription, resolution, steps.start, steps.stop)
            ],
        )
        return Response(plain(out))


def _point(point: SeriesPoint, told_from: int | None) -> SeriesPointOut:
    at_ms = point.at * 1000
    size = point.bytes if told_from is not None and told_from <= at_ms else None
    return SeriesPointOut(at=to_rfc3339(at_ms), bytes=size, **fields_of(point, SeriesPointOut, "at", "bytes"))


urlpatterns = [path("archive/topics/<str:topic>/series", SeriesOfTopic.as_view(), name="archive-series")]
