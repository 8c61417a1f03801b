"""Topics, as alert rules watch them."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet

from engine.bus.subjects import topic_subject
from hbus_console.alerts.targets import Target, TargetKind, Way
from hbus_console.registry.pages import page
from hbus_console.topics.models import Topic


def topic_targets(topics: QuerySet[Topic]) -> Iterable[Target]:
    """These, in one query."""
    rows = topics.order_by().values_list("name", "team_id", "paused", "created_at")
    for name, team, paused, at in rows:
        yield Target(topic_subject(name), team, paused, round(at.timestamp() * 1000))


TOPICS = TargetKind(
    "topic",
    lambda: topic_targets(Topic.objects.all()),
    ways=(
        Way(("settings",), "Open its settings", lambda subject: page("topics:settings", subject.namespace)),
        Way(("cluster", "store"), "Open the cluster", lambda _: page("cluster:overview")),
    ),
)
