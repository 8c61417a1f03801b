"""What the archive advises: topics that carry nothing, subscriptions that nobody reads, and when its disk is full."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from django.db.models import Max, Sum

from engine.core.clock import to_datetime
from engine.core.resolution import Resolution
from engine.pipeline.lake.state import Kind, LakeState, date_of
from engine.pipeline.rollup.forecast import LEAST_DAYS, Forecast, forecast
from hbus_console.access.permissions import Actor
from hbus_console.messages.sizes import tells_sizes
from hbus_console.pipelines.models import SeriesPoint
from hbus_console.pipelines.standing import topics_seen
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from hbus_console.ui.formats import epoch_ms

#: Nothing for so many days is worth a word.
IDLE_DAYS = 14
#: Days that a forecast rests on, at most.
FORECAST_DAYS = 90
#: In how many days it is full, for whom the exact number would tell of sizes.
COARSE_DAYS = (7, 30, 90, 365)
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class IdleTopic:
    """An archived topic of which the archive has nothing new."""

    name: str
    #: When its last message was stored, or the day of it, epoch milliseconds; 0: there never was one.
    last_ms: int
    #: Since when it is archived.
    archived_since_ms: int


@dataclass(frozen=True, slots=True)
class UnreadSubscription:
    """One that settled nothing, while messages came."""

    topic: str
    group: str
    #: The day in which it settled one last, epoch milliseconds; 0: as far as the archive knows it never did.
    last_ms: int
    #: How many were stored on the topic meanwhile, copies for others among them.
    came: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """The disk that the lake lies on."""

    free: int
    #: Of the lake.
    bytes: int
    #: Whole days that it grew on, and how many it takes to tell more.
    days: int
    forecast: Forecast | None
    #: Topics of which days go again, and so level off; the forecast takes them for ones that grow.
    limited: int
    #: Whether whoever looks may be told sizes of all that is in it; where not, rounded days are all they are told.
    weighed: bool
    least_days: int = LEAST_DAYS

    @property
    def full_within(self) -> int | None:
        """Days, rounded up coarsely; ``None``: more than these."""
        days = self.forecast.full_in if self.forecast else None
        return next((each for each in COARSE_DAYS if days is not None and days <= each), None)


def archived_long(who: Actor, now_ms: int) -> bool:
    """Whether any topic that ``who`` may see is archived for so long that something can be said of it."""
    return topics_seen(who).filter(archived__started_at__lt=to_datetime(now_ms - IDLE_DAYS * _DAY_S * 1000)).exists()


def idle_topics(who: Actor, state: LakeState, now_ms: int) -> list[IdleTopic]:
    """Of those that ``who`` may see, the longest idle first. One that is archived for a shorter time is none."""
    since_ms = now_ms - IDLE_DAYS * _DAY_S * 1000
    stored: Counter[str] = Counter()
    for file in state.files.values():
        if file.kind is Kind.MESSAGES:
            stored[file.topic] = max(stored[file.topic], file.last_ms)
    topics = list(topics_seen(who).filter(archived__started_at__lt=to_datetime(since_ms)))
    known = _last_days([topic.name for topic in topics], "stored", of_topics=True)
    found = [
        IdleTopic(
            topic.name,
            stored[topic.name] or known.get((topic.name, ""), 0) * 1000,
            epoch_ms(topic.archived.started_at),
        )
        for topic in topics
    ]
    idle = [each for each in found if (stored[each.name] or _end_of_day(each.last_ms)) < since_ms]
    return sorted(idle, key=lambda each: (each.last_ms, each.name))


def _end_of_day(begins_ms: int) -> int:
    """Of a day nobody knows when in it the last message came. 0 is none."""
    return begins_ms + _DAY_S * 1000 if begins_ms else 0


def unread_subscriptions(who: Actor, now_ms: int) -> list[UnreadSubscription]:
    """Likewise, of archived topics: for of others nobody knows what came. One that is younger is none."""
    since_s = (now_ms // 1000 // _DAY_S - IDLE_DAYS + 1) * _DAY_S
    topics = list(topics_seen(who).filter(archived__started_at__lt=to_datetime(since_s * 1000)))
    names = [topic.name for topic in topics]
    days = SeriesPoint.objects.filter(topic__in=names, resolution=Resolution.DAY.value, subscription="")
    came = dict(days.filter(at__gte=since_s, stored__gt=0).values_list("topic").annotate(Sum("stored")))
    last = _last_days(names, "settled")
    rows = Subscription.objects.filter(topic__in=topics, created_at__lt=to_datetime(since_s * 1000))
    found = [
        UnreadSubscription(topic, group, last.get((topic, group), 0) * 1000, came[topic])
        for topic, group in rows.values_list("topic__name", "group")
        if topic in came and last.get((topic, group), 0) < since_s
    ]
    return sorted(found, key=lambda each: (each.last_ms, each.topic, each.group))


def capacity(who: Actor, state: LakeState, root: Path, now_ms: int) -> Capacity:
    """Of the whole lake, whoever its topics belong to: the caller has checked that ``who`` may see them all. Raises
    ``OSError``."""
    by_day: Counter[str] = Counter()
    for file in state.files.values():
        by_day[file.date] += file.bytes
    # The present day is not over.
    yesterday = date.fromisoformat(date_of(now_ms)) - timedelta(days=1)
    first = max(min(by_day, default="~"), (yesterday - timedelta(days=FORECAST_DAYS - 1)).isoformat())
    grown: list[int] = []
    day = yesterday
    while day.isoformat() >= first:
        grown.append(by_day[day.isoformat()])
        day -= timedelta(days=1)
    free = shutil.disk_usage(_there(root)).free
    limited = sum(held.rules.keep_days is not None for held in state.topics.values())
    return Capacity(free, sum(by_day.values()), len(grown), forecast(grown[::-1], free), limited, _weighed(who, state))


def _weighed(who: Actor, state: LakeState) -> bool:
    first: dict[str, int] = {}
    for file in state.files.values():
        first[file.topic] = min(first.get(file.topic, file.first_ms), file.first_ms)
    topics = Topic.objects.in_bulk(first, field_name="name")
    return all(tells_sizes(who, name, topics.get(name), at_ms) for name, at_ms in first.items())


def _there(path: Path) -> Path:
    """The folder, or the nearest one above it that is there: nothing may have been archived so far."""
    return path if path.exists() else _there(path.parent)


def _last_days(topics: Sequence[str], of: str, *, of_topics: bool = False) -> Mapping[tuple[str, str], int]:
    """The second at which the last day begins that has any, by topic and subscription."""
    rows = SeriesPoint.objects.filter(topic__in=topics, resolution=Resolution.DAY.value, **{f"{of}__gt": 0})
    rows = rows.filter(subscription="") if of_topics else rows.exclude(subscription="")
    return {
        (topic, subscription): last
        for topic, subscription, last in rows.values_list("topic", "subscription").annotate(Max("at"))
    }
