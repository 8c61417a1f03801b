"""Series as pages and endpoints read them."""

from __future__ import annotations

from typing import Any

from django.db.models import Max, QuerySet, Sum

from engine.core.resolution import Resolution
from hbus_console.pipelines.models import ArchivedTopic, RolledUp, SeriesPoint

#: Subscriptions that are listed.
MOST_LISTED = 100
_DAY_S = 86_400


def rolled_up_ms(topic: str = "") -> int:
    """When a day was rolled up last, of one topic or of any, epoch milliseconds; 0: never."""
    rows = RolledUp.objects.filter(topic=topic) if topic else RolledUp.objects.all()
    return int(rows.aggregate(last=Max("at_ms"))["last"] or 0)


def rolled_upto_s(topic: str, resolution: Resolution) -> int:
    """The end of the last span of a topic, or of its subscriptions, of which its series tell, seconds since the epoch:
    that of its newest point, or a later one that was archived and rolled up whole, in which then nothing happened.
    0: they tell of none."""
    # In the topic's own points is what happened in any subscription.
    newest = SeriesPoint.objects.filter(topic=topic, subscription="", resolution=resolution.value)
    at = newest.aggregate(last=Max("at"))["last"]
    marks = ArchivedTopic.objects.filter(topic__name=topic)
    whole_ms = marks.values_list("rolled_upto_ms", flat=True).first() or 0
    step = resolution.seconds
    return max(0 if at is None else at + step, whole_ms // 1000 // step * step)


def points(topic: str, subscription: str, resolution: Resolution, start_s: int, end_s: int) -> QuerySet[SeriesPoint]:
    """Those that begin from one second to before another, the first first; an empty subscription is the topic itself.
    The caller has checked that whoever asks may see the topic."""
    return SeriesPoint.objects.filter(
        topic=topic, subscription=subscription, resolution=resolution.value, at__gte=start_s, at__lt=end_s
    ).order_by("at")


def subscriptions_of(topic: str, start_s: int, end_s: int) -> list[dict[str, Any]]:
    """Those that did anything in the days that a time touches, with what they did, the busiest first."""
    rows = SeriesPoint.objects.filter(
        topic=topic, resolution=Resolution.DAY.value, at__gt=start_s - _DAY_S, at__lt=end_s
    ).exclude(subscription="")
    sums = rows.values("subscription").annotate(settled=Sum("settled"), retried=Sum("retried"), dead=Sum("dead"))
    return [dict(each) for each in sums.order_by("-settled", "subscription")[:MOST_LISTED]]
