"""How topics stand: the rows of the lists, worst first. A fixed number of queries for any length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Count, Q

from hbus_console.access.permissions import Actor, visible_scopes
from hbus_console.access.scopes import namespace_q
from hbus_console.deadletters import counting
from hbus_console.deadletters.counting import by_topic
from hbus_console.evidence.freshness import Freshness
from hbus_console.topics.models import Topic
from hbus_console.traffic import flow
from hbus_console.traffic.standing import Backlog, Standing, standing
from hbus_console.ui.rows import Filters, owned
from hbus_console.ui.timerange import TimeRange

_SPARK_POINTS = 30


@dataclass(frozen=True)
class TopicRow:
    """A topic and how it stands."""

    topic: Topic
    history: Sequence[float]
    #: ``None`` while nobody knows.
    per_second: float | None
    backlog: Backlog
    dead: int
    dead_of: Freshness
    note: str

    @property
    def dead_told(self) -> str:
        """How many dead letters wait for a decision, as far as it is known."""
        return counting.told(self.dead, self.dead_of)

    @property
    def blocked(self) -> bool:
        """Whether nothing can be published to it, or is read from it."""
        return self.topic.team_id is None or self.topic.paused

    @property
    def carrier(self) -> str:
        """The transport that carries it."""
        return carrier(self.topic)

    @property
    def trouble(self) -> tuple[int, int, int, int, int, float, str]:
        """Sorts the worst first."""
        return (
            -int(self.dead > 0),
            -int(self.blocked),
            -self.dead,
            -self.backlog.known,
            -self.backlog.unknown,
            -(self.per_second or 0),
            self.topic.name,
        )


@dataclass(frozen=True)
class TopicFilters(Filters):
    """What the list of topics is narrowed to."""

    classification: str = ""


def topic_rows(who: Actor, chosen: TimeRange, now_ms: int, wanted: TopicFilters) -> list[TopicRow]:
    """Every topic ``who`` may see that fits the filters, the worst first."""
    scopes = visible_scopes(who)
    stand, dead = standing(now_ms, scopes), by_topic(scopes)
    sparks = flow.topic_sparks(chosen.start_ms, chosen.end_ms, scopes, _SPARK_POINTS)
    topics = owned(Topic.objects.filter(namespace_q(who, "name")), wanted.owner)
    if wanted.classification:
        topics = topics.filter(classification=wanted.classification)
    if wanted.q:
        topics = topics.filter(Q(name__icontains=wanted.q) | Q(description__icontains=wanted.q))
    rows = [
        topic_row(topic, stand, dead, sparks.get(topic.name, ()))
        for topic in topics.select_related("team").annotate(readers=Count("subscriptions"))
    ]
    return sorted(rows, key=lambda row: row.trouble)


def topic_row(topic: Topic, stand: Standing, dead: Mapping[str, int], history: Sequence[float]) -> TopicRow:
    """One topic's row; ``topic`` comes annotated with the number of its ``readers``, ``dead`` counts by topic."""
    return TopicRow(
        topic=topic,
        history=history,
        per_second=stand.now.topic(topic.name).published,
        backlog=stand.backlog_of(topic.name),
        dead=dead.get(topic.name, 0),
        dead_of=stand.dead,
        note=_note(topic),
    )


def carrier(topic: Topic) -> str:
    """The transport that carries a topic, as people call it."""
    return (topic.transport or settings.HBUS_TRANSPORT).replace("_stream", "")


def _note(topic: Topic) -> str:
    if topic.team_id is None:
        return "publishes are refused"
    if topic.paused:
        return "paused"
    if not getattr(topic, "readers", 1):
        return "nobody subscribes"
    return "ordered by key" if topic.ordering == Topic.Ordering.KEY else ""
