"""What a topic's page says: the answer, the figures, its readers and its latest messages."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.bus.errors import UNANSWERED
from engine.bus.transport import Depth
from hbus_console.access.permissions import Actor
from hbus_console.cluster import probes
from hbus_console.deadletters import counting
from hbus_console.evidence import freshness
from hbus_console.evidence.freshness import Freshness
from hbus_console.messages.models import LedgerMessage
from hbus_console.messages.sizes import tell_sizes
from hbus_console.subscriptions.standing import SubscriptionFilters, SubscriptionRow, subscription_rows
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules
from hbus_console.topics.services.topic_rules import carrier_of
from hbus_console.topics.supply import Promise, promises
from hbus_console.traffic import flow
from hbus_console.traffic.standing import Backlog, share
from hbus_console.ui import formats
from hbus_console.ui.figures import Figure
from hbus_console.ui.timerange import TimeRange
from hbus_console.wiring import bus

#: How many of the latest messages the page lists.
LATEST = 8


@dataclass(frozen=True)
class TopicPage:
    """All the page shows."""

    topic: Topic
    answer: str
    tone: str
    figures: list[Figure]
    readers: list[SubscriptionRow]
    latest: list[LedgerMessage]
    promises: list[Promise]


@dataclass(frozen=True)
class _Flow:
    """What flows on the topic, and of when that and the dead letters are."""

    rates: flow.Rates
    booked: Freshness
    dead: Freshness


def build(who: Actor, topic: Topic, chosen: TimeRange, now_ms: int) -> TopicPage:
    """The page of ``topic`` over ``chosen``; the caller has checked that ``who`` may see it."""
    readers = subscription_rows(who, chosen, now_ms, SubscriptionFilters(topic=topic.name))
    of = freshness.read(now_ms)
    booked = of[freshness.FACTS]
    rates = flow.rates(now_ms, [topic.name], booked).topic(topic.name)
    flowing = _Flow(rates, booked, of[freshness.DEAD_LETTERS])
    answer, tone = _answer(topic, readers, flowing)
    return TopicPage(
        topic=topic,
        answer=answer,
        tone=tone,
        figures=_figures(topic, readers, flowing, chosen, now_ms),
        readers=readers,
        latest=_latest(topic),
        promises=promises(topic),
    )


def _latest(topic: Topic) -> list[LedgerMessage]:
    rows = list(LedgerMessage.objects.filter(topic=topic.name).order_by("-published_ms")[:LATEST])
    tell_sizes(rows)
    return rows


def depth(topic: Topic) -> Depth | None:
    """What the store holds of the topic; ``None`` while it cannot be asked."""
    if probes.obstacle():
        return None
    try:
        found = bus.admin(topic.transport).depth(topic.name)
        for carrier in topic.carriers[1:]:
            # While it moves, the store that it leaves holds some as well.
            left = bus.admin(carrier).depth(topic.name)
            size = None if found.bytes is None or left.bytes is None else found.bytes + left.bytes
            found = replace(found, messages=found.messages + left.messages, bytes=size)
        return found
    except UNANSWERED:
        return None


def _answer(topic: Topic, readers: list[SubscriptionRow], flowing: _Flow) -> tuple[str, str]:
    """How the topic stands, in one sentence, and its tone."""
    rates, booked = flowing.rates, flowing.booked
    going = [row for row in readers if not row.held]
    if said := _special(topic) or _undecided(readers, flowing.dead) or _still(going) or _slow(going):
        return said
    if not readers:
        return "Nobody subscribes to it yet.", ""
    if held := [row for row in readers if row.held]:
        return f"{_names(held)} {'is' if len(held) == 1 else 'are'} paused.", "warn"
    who = "Its one subscription keeps" if len(readers) == 1 else f"All {len(readers)} subscriptions keep"
    if rates.published is None:
        return f"{who} up; what is published is {booked.why}.", "warn"
    if not rates.published:
        return f"{who} up, and nothing is published just now.", "ok"
    return f"{who} up with {formats.rate(rates.published)} messages a second.", "ok"


def _undecided(readers: list[SubscriptionRow], of: Freshness) -> tuple[str, str] | None:
    dead = sum(row.dead for row in readers)
    return (f"{counting.letters(dead, of, 'wait')} for a decision.", "bad") if dead else None


def _still(going: list[SubscriptionRow]) -> tuple[str, str] | None:
    """Which of those that should be going are not."""
    if alone := [row for row in going if row.served is False]:
        waits = any(row.unsettled for row in alone)
        return f"No consumer runs {_names(alone)}: messages wait.", "bad" if waits else "warn"
    if tripped := [row for row in going if row.breaker]:
        which = (
            f"The breaker of {_names(tripped)} is" if len(tripped) == 1 else f"The breakers of {_names(tripped)} are"
        )
        trying = [row for row in tripped if row.breaker == "probing"]
        if trying == tripped:
            return f"{which} open: one message {'' if len(tripped) == 1 else 'of each '}is being tried.", "bad"
        but = f", but for one message of {_names(trying)} that is being tried" if trying else ""
        return f"{which} open: nothing is delivered meanwhile{but}.", "bad"
    if any(row.served is None for row in going):
        return "The store cannot be asked: nobody knows whether its readers keep up.", "warn"
    return None


def _slow(going: list[SubscriptionRow]) -> tuple[str, str] | None:
    if behind := [row for row in going if row.behind]:
        return f"{_names(behind)} {'does' if len(behind) == 1 else 'do'} not keep up.", "warn"
    if parked := [row for row in going if row.parked]:
        return f"{_names(parked)} {'has' if len(parked) == 1 else 'have'} keys set aside, to be decided on.", "warn"
    if failing := [row for row in going if row.fails]:
        if len(failing) == 1:
            return f"{_names(failing)} does not keep up: {failing[0].fails}.", "warn"
        return f"{_names(failing)} do not keep up: what failed waits to be tried again.", "warn"
    if dark := [row for row in going if row.unsettled is None]:
        whether = f"whether {_names(dark)} {'keeps' if len(dark) == 1 else 'keep'} up"
        unasked = Backlog.of(row.lag for row in dark).unasked
        return f"W{whether[1:]} is {unasked}." if unasked else f"Nobody knows {whether}.", "warn"
    return None


def _names(rows: list[SubscriptionRow]) -> str:
    named = ", ".join(row.subscription.group for row in rows[:3])
    return named if len(rows) <= 3 else f"{named} and {len(rows) - 3} more"


def _special(topic: Topic) -> tuple[str, str] | None:
    """What matters more than how its readers keep up."""
    if topic.team_id is None:
        return "Nobody owns it, so every publish is refused until a team takes it over.", "bad"
    if topic.paused:
        return f"Deliveries to all subscriptions are held: “{topic.pause_reason}”. Publishing goes on.", "warn"
    if topic.leaving:
        return f"It is moving from {topic.leaving} to {carrier_of(topic.transport)}; both are read.", "warn"
    return None


def _figures(
    topic: Topic, readers: list[SubscriptionRow], flowing: _Flow, chosen: TimeRange, now_ms: int
) -> list[Figure]:
    scope, live = [topic.name], f"topic/{topic.name}"
    rates, booked = flowing.rates, flowing.booked
    history = flow.series(chosen.start_ms, chosen.end_ms, scope, topic.name)
    waiting = flow.lag_series(chosen.start_ms, chosen.end_ms, scope, topic.name)
    backlog = Backlog.of(row.lag for row in readers)
    dead = sum(row.dead for row in readers)
    best, at_ms = history.peak("published")
    peak = f"peak {formats.rate(best)} at {formats.clock(at_ms)[:5]}" if at_ms else "nothing in this time"
    first = history.first_attempt
    settled = "nothing settled in this time" if first is None else f"{share(first)} at first attempt"
    return [
        Figure(f"{live}/rate", "Published", formats.rate(rates.published), "/s", "accent", history.published,
               booked.why or peak),
        Figure(f"{live}/settled", "Settled", formats.rate(rates.settled), "/s", "ok", history.settled,
               booked.why or settled),
        Figure(f"{live}/unsettled", "Unsettled", backlog.told, "", backlog.tone, waiting.unsettled,
               backlog.since(now_ms)),
        Figure(f"{live}/dead", "Dead letters", counting.told(dead, flowing.dead), "", "bad" if dead else "muted",
               history.dead, counting.waits(dead, flowing.dead),
               "bad" if dead else ""),
        _held(topic),
    ]  # fmt: skip


def _held(topic: Topic) -> Figure:
    found = depth(topic)
    if found is None:
        return Figure("", "In the store", formats.num(None), "", "muted", (), "the store cannot be asked", "warn")
    # As of each message: where something is masked, what one adds to the store would tell it apart.
    told = found.bytes is not None and not MaskingRules.of(topic).hide_something
    size = f"{formats.size(found.bytes)} · " if told else ""
    kept = formats.duration(topic.retention_hours * 3_600_000_000)
    return Figure("", "In the store", formats.num(found.messages), "", "muted", (), f"{size}kept {kept}")
