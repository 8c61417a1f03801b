"""What rules look at: every topic and subscription, with who answers for it, in three queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from hbus_console.access.permissions import covers
from hbus_console.alerts.kinds import KINDS
from hbus_console.alerts.models import Rule
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic

#: Topic and subscription; of a topic itself the second part is empty.
Key = tuple[str, str]


@dataclass(frozen=True)
class Target:
    """One topic or subscription."""

    topic: str
    subscription: str
    team_id: int | None
    #: Held by a person, itself or with its topic.
    paused: bool
    created_ms: int

    @property
    def key(self) -> Key:
        return self.topic, self.subscription


@dataclass(frozen=True)
class Targets:
    """All of them."""

    topics: Sequence[Target]
    subscriptions: Sequence[Target]

    def __len__(self) -> int:
        return len(self.topics) + len(self.subscriptions)

    def of(self, rule: Rule) -> Iterable[Target]:
        """What ``rule`` watches."""
        if rule.of_team and rule.team_id is None:
            return
        group = rule.group or "*"
        kind = KINDS[rule.kind]
        for target in self.topics if kind.of_topics else self.subscriptions:
            if rule.of_team and target.team_id != rule.team_id:
                continue
            if not covers(rule.topics, target.topic):
                continue
            if kind.of_topics or group == "*" or fnmatchcase(target.subscription, group):
                yield target


def read_targets() -> Targets:
    """As the database has them now."""
    topics = Topic.objects.order_by().values_list("name", "team_id", "paused", "created_at")
    rows = Subscription.objects.order_by().values_list(
        "topic__name", "group", "team_id", "paused", "topic__paused", "created_at"
    )
    return Targets(
        [Target(name, "", team, paused, round(at.timestamp() * 1000)) for name, team, paused, at in topics],
        [
            Target(topic, group, team, paused or held, round(at.timestamp() * 1000))
            for topic, group, team, paused, held, at in rows
        ],
    )
