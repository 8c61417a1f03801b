"""What a subscription's page says: the answer, the figures, who consumes, and what failed lately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings

from engine.bus.breaker_board import Standing
from engine.bus.causes import cause_of_text
from engine.bus.consumer_names import NamesConsumers
from engine.bus.errors import UNANSWERED, GroupLost
from engine.bus.partitions import Owned
from engine.bus.transport import Lag
from engine.core.clock import to_datetime
from hbus_console.access.permissions import Actor
from hbus_console.cluster import probes
from hbus_console.cluster.services import living
from hbus_console.deadletters import counting
from hbus_console.deadletters.telling import CauseTally, Telling
from hbus_console.messages.models import FAILED, LedgerEvent
from hbus_console.nodes.stamps import Node
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.order_page import partitions
from hbus_console.subscriptions.services.breaker import standing_of, told_to
from hbus_console.subscriptions.services.draining import lag_of
from hbus_console.subscriptions.standing import (
    BEHIND_MS,
    SubscriptionFilters,
    SubscriptionRow,
    subscription_rows,
    takes,
)
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules
from hbus_console.traffic import flow
from hbus_console.traffic.standing import NOT_KNOWN, Backlog, failing, parts, share
from hbus_console.ui import formats
from hbus_console.ui.figures import Figure
from hbus_console.ui.timerange import TimeRange
from hbus_console.wiring import bus

#: How many causes of failure are listed.
CAUSES = 8
#: The words of so many failed attempts of one cause are compared.
MOST_OF_ONE = 500
#: Causes are counted over so many of the newest failed attempts of the time chosen.
LOOK_BACK = 2_000


@dataclass(frozen=True)
class ConsumerLine:
    """One process's part in the subscription, as it last reported."""

    node: Node
    status: Mapping[str, Any]

    @property
    def state(self) -> str:
        return "silent" if self.node.silent else str(self.status.get("state", ""))

    @property
    def at_work(self) -> bool:
        """Whether it takes messages, as far as anybody knows."""
        return takes(self.node, self.status)

    @property
    def hung(self) -> list[Mapping[str, Any]]:
        """Handlers that do not return, each with ``us``: for how long."""
        return [{**one, "us": round(float(one.get("running_s", 0)) * 1e6)} for one in self.status.get("hung", ())]

    @property
    def error(self) -> str:
        """Its last trouble, with when it was over if it is."""
        said, over_ms = str(self.status.get("last_error", "")), int(self.status.get("recovered_ms", 0))
        if said and over_ms and over_ms >= int(self.status.get("last_error_ms", 0)):
            return f"last error, over since {formats.clock(over_ms)[:8]}: {said}"
        return said

    @property
    def loop_us(self) -> int | None:
        """How long ago its reading loop last moved when it reported; ``None`` of one that reports no more."""
        return None if self.node.silent else round(float(self.status.get("loop_age_s", 0)) * 1_000_000)


@dataclass(frozen=True)
class NameLine:
    """A name in the group under which no node that reports reads it."""

    name: str
    pending: int
    #: Epoch ms of its last question.
    last_ms: int
    #: Epoch ms from which the keeper forgets it, if nothing is pending then.
    until_ms: int


@dataclass
class Failure:
    """Failed attempts of one cause."""

    fingerprint: str
    last_ms: int
    message_id: str
    source: str | None
    #: The first words of the newest of them.
    error: str
    #: The topic masks something, or one of its name did before it: what varies might be that.
    masked: bool = False
    count: int = 0
    died: int = 0
    #: What the newest of them said, and how often.
    said: Counter[str] = field(default_factory=Counter)

    @property
    def telling(self) -> Telling:
        """What is true of all of them, and what varies."""
        tally = CauseTally(cause_of_text(self.error))
        for error, times in self.said.items():
            tally.add(error, times)
        return tally.telling(self.count, hidden=self.masked)


@dataclass(frozen=True)
class Failures:
    """The causes of failed attempts, the most recent first, and how far that looked."""

    causes: list[Failure]
    #: Further causes that are not listed.
    more: int = 0
    #: When the oldest attempt that was counted failed, where older ones of the time chosen were not; epoch ms.
    back_to_ms: int | None = None

    @property
    def looked(self) -> str:
        """What the counts are of, where that is not all of the time chosen."""
        said = [f"of the newest {LOOK_BACK:,} attempts, back to {formats.clock(self.back_to_ms)[:8]}"] * bool(
            self.back_to_ms
        )
        return " · ".join([*said, *([formats.counted(self.more, "more cause")] if self.more else [])])


@dataclass(frozen=True)
class SubscriptionPage:
    """All the page shows. ``lag`` is ``None`` when the store could not be asked; ``trouble`` says why."""

    row: SubscriptionRow
    answer: str
    tone: str
    figures: list[Figure]
    lag: Lag | None
    trouble: str
    partitions: list[Owned]
    consumers: list[ConsumerLine]
    elsewhere: list[tuple[str, str]]
    failures: Failures
    #: ``None`` while the store cannot be asked.
    breaker: Standing | None = None
    #: Consumers that have left their name in the group.
    gone: list[NameLine] = field(default_factory=list)

    @property
    def hung(self) -> int:
        """How many handlers do not return, as far as the consumers are alive to tell."""
        return sum(len(line.hung) for line in self.consumers if not line.node.silent)

    @property
    def silent_consumers(self) -> int:
        return sum(line.node.silent for line in self.consumers)

    @property
    def running_consumers(self) -> int:
        return len(self.consumers) - self.silent_consumers

    @property
    def not_obeyed(self) -> bool:
        """The store does not hold or hand out deliveries as it should (yet)."""
        return self.lag is not None and self.lag.paused != self.row.held


def build(who: Actor, subscription: Subscription, chosen: TimeRange, now_ms: int) -> SubscriptionPage:
    """The page of ``subscription`` over ``chosen``; the caller has checked that ``who`` may see it."""
    topic, group = subscription.topic.name, subscription.group
    rows = subscription_rows(who, chosen, now_ms, SubscriptionFilters(topic=topic))
    row = next(one for one in rows if one.subscription.pk == subscription.pk)
    ill = probes.obstacle()
    # Each further question to a store that is ill would cost its whole patience.
    lag, trouble = (None, ill) if ill else _lag(subscription)
    lines, elsewhere = ([], []) if ill else _consumers(topic, group)
    if lag:
        # What the store says now, not what the keeper saw last: one page does not say both.
        row = replace(row, lag=_as_sampled(topic, group, lag, now_ms))
    answer, tone = _answer(row, lag, trouble, lines, now_ms)
    return SubscriptionPage(
        row=row,
        answer=answer,
        tone=tone,
        figures=_figures(row, lag, chosen, now_ms),
        lag=lag,
        trouble=trouble,
        partitions=partitions(subscription)[0],
        consumers=lines,
        elsewhere=elsewhere,
        failures=_failures(topic, group, chosen),
        breaker=None if ill else _breaker(who, subscription),
        gone=[] if ill else _gone(subscription, {line.node.name for line in lines}, now_ms),
    )


def _gone(row: Subscription, reported: set[str], now_ms: int) -> list[NameLine]:
    try:
        admin = bus.admin(row.topic.transport)
        if not isinstance(admin, NamesConsumers):
            return []
        names = admin.consumer_names(row.topic.name, row.group)
    except UNANSWERED:
        # The page says so elsewhere.
        return []
    kept_ms = settings.FORGET_CONSUMERS_H * 3_600_000
    return [
        NameLine(each.name, each.pending, now_ms - each.idle_ms, now_ms - each.idle_ms + kept_ms)
        for each in names
        if each.name not in reported
    ]


def _breaker(who: Actor, row: Subscription) -> Standing | None:
    try:
        return told_to(who, row, standing_of(row))
    except UNANSWERED:
        return None


def _lag(row: Subscription) -> tuple[Lag | None, str]:
    try:
        return lag_of(row), ""
    except GroupLost:
        return None, "The store does not know this subscription; the keeper makes it anew at its last checkpoint."
    except UNANSWERED as error:
        return None, f"The store cannot be asked: {error.what}"


def _as_sampled(topic: str, group: str, lag: Lag, now_ms: int) -> flow.LagNow:
    return flow.LagNow(topic, group, now_ms, lag.waiting, lag.in_flight, lag.retrying, lag.oldest_ms, lag.parked)


def _consumers(topic: str, group: str) -> tuple[list[ConsumerLine], list[tuple[str, str]]]:
    """Who runs it, and who hosts consumers but does not run this one, with the reason."""
    hosts = [node for node in living()[0] if node.role == "consumer"]
    lines = [
        ConsumerLine(node, status)
        for node in hosts
        for status in node.detail.get("consumers", ())
        if (status.get("topic"), status.get("group")) == (topic, group)
    ]
    elsewhere = [
        (node.name, str(idle.get("why", "")))
        for node in hosts
        for idle in node.detail.get("idle", ())
        if (idle.get("topic"), idle.get("group")) == (topic, group)
    ]
    named = {name for name, _ in elsewhere} | {line.node.name for line in lines}
    # A worker names only the first of those that it has no handler for.
    elsewhere += [
        (node.name, "this worker has no handler for it")
        for node in hosts
        if node.detail.get("idle_unnamed") and node.name not in named
    ]
    return lines, elsewhere


def _answer(
    row: SubscriptionRow, lag: Lag | None, trouble: str, lines: Sequence[ConsumerLine], now_ms: int
) -> tuple[str, str]:
    """How it stands, in one sentence, and its tone."""
    if trouble:
        return trouble, "bad"
    if row.held:
        reason = row.subscription.pause_reason or row.subscription.topic.pause_reason
        where = "It is" if row.subscription.paused else "Its topic is"
        return f"{where} paused: “{reason}”.", "warn"
    if not any(line.at_work for line in lines):
        return "No consumer runs it: messages wait.", "bad" if lag and lag.unsettled else "warn"
    if wanted := _stopped(row, lines) or _undecided(row, lag) or _slow(row, lag, now_ms):
        return wanted
    if row.rates.settled is None:
        return f"It keeps up; how much it settles is {row.booked.why}.", "warn"
    return f"It keeps up and settles {formats.rate(row.rates.settled)} messages a second.", "ok"


def _stopped(row: SubscriptionRow, lines: Sequence[ConsumerLine]) -> tuple[str, str] | None:
    """What keeps messages from being handled although somebody runs it."""
    if row.breaker:
        tried = "one message is being tried" if row.breaker == "probing" else "nothing is delivered meanwhile"
        return f"Its breaker is open: {tried}.", "bad"
    if hung := sum(not one.get("given_up") for line in lines if not line.node.silent for one in line.hung):
        handlers = "A handler does" if hung == 1 else f"{hung} handlers do"
        return f"{handlers} not return.", "bad"
    return None


def _undecided(row: SubscriptionRow, lag: Lag | None) -> tuple[str, str] | None:
    """What waits for a person."""
    if row.dead:
        return f"{counting.letters(row.dead, row.dead_of, 'wait')} for a decision.", "bad"
    if lag and lag.parked:
        parked = (
            "A message of a parked key waits" if lag.parked == 1 else f"{lag.parked:,} messages of parked keys wait"
        )
        return f"{parked} for a decision.", "warn"
    return None


def _slow(row: SubscriptionRow, lag: Lag | None, now_ms: int) -> tuple[str, str] | None:
    """That it does not keep up, that what it does fails, or that nobody knows."""
    fails = row.fails
    if lag and lag.unsettled != 0 and lag.oldest_ms and now_ms - lag.oldest_ms > BEHIND_MS:
        many = "the store cannot tell how many wait" if lag.unsettled is None else f"{lag.unsettled:,} unsettled"
        return f"It does not keep up: {'; '.join(filter(None, [many, fails]))}.", "warn"
    if fails:
        return f"{fails[0].upper()}{fails[1:]}.", "warn"
    if lag and lag.unsettled is None:
        return "Nobody knows whether it keeps up: the store cannot tell how many wait.", "warn"
    return None


def _figures(row: SubscriptionRow, lag: Lag | None, chosen: TimeRange, now_ms: int) -> list[Figure]:
    topic, group = row.subscription.topic.name, row.subscription.group
    live = f"subscription/{topic}/{group}"
    history = flow.series(chosen.start_ms, chosen.end_ms, [topic], topic, group)
    waiting = flow.lag_series(chosen.start_ms, chosen.end_ms, [topic], topic, group)
    first = history.first_attempt
    backlog = Backlog.of([lag])
    handling, _, unit = formats.duration(row.rates.handler_us).partition(" ")
    settled = (
        "nothing settled in this time" if first is None else f"mean of half a minute; {share(first)} at first attempt"
    )
    why, until = row.booked.why, "in this time"
    if not row.booked.known:
        until = f"until {formats.clock(row.booked.of_ms)[:8]}" if row.booked.of_ms else "so far"
    return [
        Figure(f"{live}/rate", "Settled", formats.rate(row.rates.settled), "/s", "ok", history.settled,
               why or settled),
        # Not by the stream, which tells what the keeper saw last: here the store itself is asked.
        Figure("", "Unsettled", backlog.told, "", backlog.tone,
               waiting.unsettled, parts(lag) if lag else "the store cannot be asked"),
        Figure("", "Oldest unsettled", *_waited(lag, now_ms), "muted", (),
               _since(lag)),
        Figure("", "Handling time", handling, unit, "muted", history.handler_ms,
               why or ("mean of half a minute" if handling != formats.num(None) else "no attempt just now")),
        Figure("", "Failed attempts", *failing(row.attempts.failed_share), "warn" if row.attempts.failed else "muted",
               history.failed, f"{formats.num(row.attempts.failed)} of {formats.num(row.attempts.total)} {until}"),
        Figure("", "Dead letters", row.dead_told, "", "bad" if row.dead else "muted", history.dead,
               counting.waits(row.dead, row.dead_of), "bad" if row.dead else "",
               url_name="deadletters:list"),
    ]  # fmt: skip


def _waited(lag: Lag | None, now_ms: int) -> tuple[str, str]:
    if lag is None or lag.oldest_ms is None:
        return formats.num(None), ""
    waited = formats.duration(max(0, now_ms - lag.oldest_ms) * 1000)
    value, _, unit = waited.partition(" ")
    # "1 m 8 s" stays whole.
    return (value, unit) if " " not in unit else (waited, "")


def _since(lag: Lag | None) -> str:
    if lag is None:
        return "the store cannot be asked"
    if lag.oldest_ms:
        return f"published at {formats.clock(lag.oldest_ms)[:8]}"
    return NOT_KNOWN if lag.unsettled is None else "nothing waits"


def _failures(topic: str, group: str, chosen: TimeRange) -> Failures:
    """The causes of failed attempts in the time chosen."""
    events = LedgerEvent.objects.filter(
        topic=topic,
        subscription=group,
        at_ms__gte=chosen.start_ms,
        at_ms__lt=chosen.end_ms,
    )
    failed = events.filter(FAILED).order_by("-at_ms")
    there = Topic.objects.filter(name=topic).first()
    found: dict[str, Failure] = {}
    newest = list(failed[: LOOK_BACK + 1])
    for event in newest[:LOOK_BACK]:
        cause = event.fingerprint or event.error
        if cause not in found:
            found[cause] = Failure(event.fingerprint, event.at_ms, event.message_id, event.source, event.error)
        failure = found[cause]
        failure.masked |= MaskingRules.at(there, to_datetime(event.at_ms)).hide_something
        if failure.count < MOST_OF_ONE:
            failure.said[event.error] += 1
        failure.count += 1
        failure.died += event.kind == "dead"
    return Failures(
        list(found.values())[:CAUSES],
        max(0, len(found) - CAUSES),
        newest[LOOK_BACK - 1].at_ms if len(newest) > LOOK_BACK else None,
    )
