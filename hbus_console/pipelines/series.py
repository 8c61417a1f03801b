"""Series as pages and endpoints read them."""

from __future__ import annotations

from typing import Any

from django.db.models import Max, QuerySet, Sum

from engine.core.resolution import Resolution
from hbus_console.pipelines.models import RolledUp, SeriesPoint

#: Subscriptions that are listed.
MOST_LISTED = 100
_DAY_S = 86_400


def rolled_up_ms(topic: str = "") -> int:
    """When a day was rolled up last, of one topic or of any, epoch milliseconds; 0: never."""
    rows = RolledUp.objects.filter(topic=topic) if topic else RolledUp.objects.all()
    return int(rows.aggregate(last=Max("at_ms"))["last"] or 0)


def archived_upto_s(topic: str) -> int:
    """From when on the archive may have more of the topic than its series tell, seconds since the epoch: when the last
    span begins in which anything was stored. 0: it tells of none."""
    rows = SeriesPoint.objects.filter(topic=topic, subscription="", stored__gt=0)
    for resolution in (Resolution.MINUTE, Resolution.HOUR, Resolution.DAY):
        if last := rows.filter(resolution=resolution.value).aggregate(last=Max("at"))["last"]:
            return int(last)
    return 0


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
