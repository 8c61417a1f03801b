"""What the overview says: five figures, and the topics by trouble. Each part is one or two indexed queries."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count

from hbus_console.access.scopes import scopes_q
from hbus_console.deadletters.counting import by_topic, told, where
from hbus_console.topics.models import Topic
from hbus_console.topics.standing import TopicRow, topic_row
from hbus_console.traffic import flow, history
from hbus_console.traffic.history import History
from hbus_console.traffic.standing import Standing, handling, share
from hbus_console.traffic.standing import stand as read_standing
from hbus_console.ui import formats
from hbus_console.ui.concern import Look
from hbus_console.ui.figures import Figure
from hbus_console.ui.timerange import TimeRange

#: How many topics the overview lists; the topics page has them all.
MOST_TOPICS = 50


@dataclass(frozen=True)
class Overview:
    """The whole page but for what needs a person and the roles."""

    figures: list[Figure]
    rows: list[TopicRow]
    topics: int
    subscriptions: int


def build(look: Look, chosen: TimeRange) -> Overview:
    """The overview of what ``look.actor`` may see over ``chosen``."""
    scopes = look.scopes
    stand, dead = look.once(read_standing), by_topic(scopes)
    topics = list(
        Topic.objects.filter(scopes_q(scopes, "name")).select_related("team").annotate(readers=Count("subscriptions"))
    )
    past = history.of(scopes, chosen)
    rows = [topic_row(topic, stand, dead, past.topics.get(topic.name, ())) for topic in topics]
    rows.sort(key=lambda row: row.trouble)
    return Overview(
        figures=_figures(stand, dead, past, look.now_ms),
        rows=rows[:MOST_TOPICS],
        topics=len(topics),
        subscriptions=sum(topic.readers for topic in topics),
    )


def _figures(stand: Standing, dead: dict[str, int], past: History, now_ms: int) -> list[Figure]:
    series, whole = past.series, past.whole
    total = stand.now.total
    first = series.first_attempt
    first_attempt = "nothing settled in this time" if first is None else f"{share(first)} at first attempt"
    why = stand.booked.why
    return [
        Figure(
            key="published",
            label="Published",
            value=formats.rate(total.published),
            unit="/s",
            tone="accent",
            history=series.published[:whole],
            note=why or _peak(series),
            url_name="messages:search",
        ),
        Figure(
            key="settled",
            label="Settled",
            value=formats.rate(total.settled),
            unit="/s",
            tone="ok",
            history=series.settled[:whole],
            note=why or first_attempt,
            url_name="subscriptions:list",
        ),
        Figure(
            key="unsettled",
            label="Unsettled",
            value=stand.backlog.told,
            unit="",
            tone=stand.backlog.tone,
            history=past.waiting.unsettled[:whole],
            note=stand.backlog.since(now_ms),
            url_name="subscriptions:list",
        ),
        Figure(
            key="dead",
            label="Dead letters",
            value=told(sum(dead.values()), stand.dead),
            unit="",
            tone="bad" if dead else "muted" if stand.dead.known else "warn",
            history=series.dead[:whole],
            note=where(dead, stand.dead),
            url_name="deadletters:list",
        ),
        Figure(
            key="handling",
            label="Handling time",
            value=handling(total.handler_us)[0],
            unit=handling(total.handler_us)[1],
            tone="muted",
            history=series.handler_ms[:whole],
            note=why or _slowest(series),
        ),
    ]


def _peak(series: flow.Series) -> str:
    best, at_ms = series.peak("published")
    return f"peak {formats.rate(best)} at {formats.clock(at_ms)[:5]}" if at_ms else "nothing in this time"


def _slowest(series: flow.Series) -> str:
    known = [(value, second) for value, second in zip(series.handler_ms, series.t, strict=True) if value is not None]
    if not known:
        return "no attempt in this time"
    worst, second = max(known)
    return f"{formats.duration(worst * 1000)} on average at {formats.clock(second * 1000)[:5]}"
