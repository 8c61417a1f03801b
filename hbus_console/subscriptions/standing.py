"""How subscriptions stand: the rows of the lists, worst first. A fixed number of queries for any length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Q

from hbus_console.access.permissions import Actor, visible_scopes
from hbus_console.access.scopes import namespace_q
from hbus_console.cluster import probes
from hbus_console.cluster.services import living
from hbus_console.deadletters import counting
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence import freshness
from hbus_console.evidence.freshness import Freshness
from hbus_console.nodes.stamps import Node
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services.breaker import open_breakers
from hbus_console.topics.scopes import topic_filter
from hbus_console.traffic import flow
from hbus_console.traffic.standing import Backlog, failing
from hbus_console.ui import formats
from hbus_console.ui.rows import Filters, owned
from hbus_console.ui.timerange import TimeRange

#: Waiting longer than this behind a subscription that is not held means it does not keep up.
BEHIND_MS = 60_000
#: The share of attempts from which on most of them failed.
MOST = 0.5
#: What a row's :attr:`SubscriptionRow.state` may say.
STATES = (
    "active",
    "behind",
    "retrying",
    "keys parked",
    "breaker open",
    "breaker probing",
    "paused",
    "topic paused",
    "no handler",
    "no consumer",
    "unknown",
)
_SPARK_POINTS = 30
_NONE = flow.Attempts()


@dataclass(frozen=True)
class SubscriptionRow:
    """A subscription and how it stands. ``unsettled`` is ``None`` where the store cannot tell."""

    subscription: Subscription
    history: Sequence[float]
    rates: flow.Rates
    lag: flow.LagNow | None
    dead: int
    now_ms: int
    #: ``open`` or ``probing``; empty while it is closed.
    breaker: str = ""
    #: Of the time chosen.
    attempts: flow.Attempts = field(default_factory=flow.Attempts)
    #: Whether some consumer takes its messages; ``None`` while nobody can tell.
    served: bool | None = True
    #: Of when the facts are that rates and attempts are made of, and the dead letters.
    booked: Freshness = field(default_factory=Freshness)
    dead_of: Freshness = field(default_factory=Freshness)

    @property
    def unsettled(self) -> int | None:
        return self.lag.unsettled if self.lag else None

    @property
    def backlog(self) -> Backlog:
        return Backlog.of([self.lag])

    @property
    def dead_told(self) -> str:
        """How many dead letters wait for a decision, as far as it is known."""
        return counting.told(self.dead, self.dead_of)

    @property
    def failed(self) -> str:
        """The share of attempts that failed, in words."""
        return " ".join(failing(self.attempts.failed_share)).strip()

    @property
    def oldest_us(self) -> int | None:
        """How long the oldest unsettled message has waited; ``None`` when nothing waits."""
        if self.lag is None or self.lag.oldest_ms is None:
            return None
        return max(0, self.now_ms - self.lag.oldest_ms) * 1000

    @property
    def held(self) -> bool:
        return self.subscription.paused or self.subscription.topic.paused

    @property
    def parked(self) -> int:
        """How many messages wait with their keys until a person decides."""
        return self.lag.parked if self.lag else 0

    @property
    def behind(self) -> bool:
        # With keys parked the oldest message is one of theirs, and waits for a person.
        return not self.held and not self.parked and (self.oldest_us or 0) > BEHIND_MS * 1000

    @property
    def fails(self) -> str:
        """What fails just now, in words; empty where most of what it has left was never tried in vain, and most
        attempts succeed."""
        said = []
        again = self.lag.retrying if self.lag else 0
        # Of much that flows some is always tried again.
        if again > MOST * (self.unsettled or 0):
            waits = "waits" if again == 1 else "wait"
            said.append(f"{formats.counted(again, 'message')} {waits} to be tried again")
        failed = self.rates.failed_share
        if failed is not None and failed > MOST:
            said.append(f"{'every attempt' if failed == 1 else 'most attempts'} of the last half minute failed")
        return "; ".join(said)

    @property
    def state(self) -> str:
        """The word for it."""
        if stopped := self._stopped:
            return stopped
        if self.parked:
            return "keys parked"
        if self.served is None:
            return "unknown"
        if self.behind:
            return "behind"
        if self.fails:
            return "retrying"
        # That something has waited long is known of what is known; that nothing has, only of all.
        return "unknown" if self.unsettled is None else "active"

    @property
    def _stopped(self) -> str:
        """Why it takes no messages at all, if it does not."""
        row = self.subscription
        if row.paused:
            return "paused"
        if row.topic.paused:
            return "topic paused"
        if row.handler == Subscription.Handler.CODE and not row.handler_name:
            return "no handler"
        if self.breaker:
            return f"breaker {self.breaker}"
        return "no consumer" if self.served is False else ""

    @property
    def trouble(self) -> tuple[int, int, int, int, float, str, str]:
        """Sorts the worst first."""
        return (
            -int(self.dead > 0),
            -int(self.state != "active"),
            -self.dead,
            -(self.unsettled or 0),
            -(self.rates.settled or 0),
            self.subscription.topic.name,
            self.subscription.group,
        )


@dataclass(frozen=True)
class SubscriptionFilters(Filters):
    """What the list of subscriptions is narrowed to."""

    topic: str = ""


def subscription_rows(who: Actor, chosen: TimeRange, now_ms: int, wanted: SubscriptionFilters) -> list[SubscriptionRow]:
    """Every subscription ``who`` may see that fits the filters, the worst first."""
    scopes = visible_scopes(who)
    found = owned(Subscription.objects.filter(namespace_q(who, "topic__name")), wanted.owner)
    if wanted.topic:
        found = found.filter(topic__name=wanted.topic)
    if wanted.q:
        found = found.filter(Q(group__icontains=wanted.q) | Q(topic__name__icontains=wanted.q))
    sparks = flow.subscription_sparks(chosen.start_ms, chosen.end_ms, scopes, _SPARK_POINTS)
    attempts = flow.subscription_attempts(chosen.start_ms, chosen.end_ms, scopes)
    of = freshness.read(now_ms)
    booked, dead_of = of[freshness.FACTS], of[freshness.DEAD_LETTERS]
    now = flow.rates(now_ms, scopes, booked)
    lag = flow.latest_lag(scopes, now_ms)
    dead = dead_counts(scopes)
    shown = {(row.topic.name, row.group): row for row in found.select_related("topic", "team")}
    # That the store is away is said of each by what reads it.
    breakers = open_breakers(list(shown)) or {}
    taken = served() if shown else None
    rows = [
        SubscriptionRow(
            row,
            sparks.get(key, ()),
            now.subscription(*key),
            lag.get(key),
            dead.get(key, 0),
            now_ms,
            breakers[key].state if key in breakers else "",
            attempts.get(key, _NONE),
            None if taken is None else key in taken,
            booked,
            dead_of,
        )
        for key, row in shown.items()
    ]
    if wanted.state:
        rows = [row for row in rows if row.state == wanted.state]
    return sorted(rows, key=lambda row: row.trouble)


def dead_counts(scopes: Sequence[str]) -> dict[tuple[str, str], int]:
    """Dead letters that wait for a decision, by (topic, subscription)."""
    rows = (
        DeadLetter.objects.filter(topic_filter(scopes), state=DeadLetter.State.DEAD)
        .values_list("topic", "subscription")
        .annotate(count=Count("id"))
        .order_by()
    )
    return {(topic, subscription): count for topic, subscription, count in rows}


def waiting_letters(topic: str, group: str) -> int:
    """Likewise of one subscription."""
    return DeadLetter.objects.filter(topic=topic, subscription=group, state=DeadLetter.State.DEAD).count()


def takes(node: Node, status: Mapping[str, Any]) -> bool:
    """Whether the consumer of that status takes messages, as far as anybody knows."""
    return not node.silent and status.get("state") not in ("draining", "stopped")


def served() -> frozenset[tuple[str, str]] | None:
    """Topic and group of what some consumer takes messages for; ``None`` while nobody can tell."""
    if probes.obstacle():
        return None
    found, error = living()
    if error:
        return None
    return frozenset(
        (str(status.get("topic")), str(status.get("group")))
        for node in found
        if node.role == "consumer"
        for status in node.detail.get("consumers", ())
        if takes(node, status)
    )
