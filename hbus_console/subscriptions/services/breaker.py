"""The breaker of a subscription, as a person opens and closes it."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from engine.bus.breaker_board import Standing
from engine.bus.errors import UNANSWERED
from engine.bus.facts import Fact
from engine.core.clock import SystemClock
from hbus_console import checks
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, require
from hbus_console.cluster import probes
from hbus_console.subscriptions.feature import SUBSCRIPTION_OPERATE
from hbus_console.subscriptions.services import lookup
from hbus_console.subscriptions.services.subscriptions import record_act
from hbus_console.wiring import bus, fact_log, store

ACTS = ("open", "close")


def breaker(actor: Actor, topic: str, group: str) -> Standing:
    """How it stands now. Raises ``Forbidden`` and ``Unavailable``."""
    require(actor, VIEW, topic)
    row = lookup.subscription(topic, group)
    return bus.breakers().look(row.topic.name, row.group)


def open_breakers(subscriptions: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The state of those that are not closed; none while the store cannot be asked, which other places say."""
    if probes.obstacle():
        return {}
    try:
        return bus.breakers().states(subscriptions)
    except UNANSWERED:
        return {}


def outages(subscriptions: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int] | None:
    """Since when those are open that are not closed, epoch milliseconds; ``None`` while the store cannot be asked."""
    if probes.obstacle():
        return None
    try:
        return bus.breakers().outages(subscriptions)
    except UNANSWERED:
        return None


def set_breaker(actor: Actor, topic: str, group: str, act: str, reason: str) -> Standing:
    """Open it, until a person closes it; or close it, until failures open it again. ``act`` is one of :data:`ACTS`.

    Raises ``Forbidden``, :class:`BadInput` at the field, and ``Unavailable``; then nothing has changed.
    """
    require(actor, SUBSCRIPTION_OPERATE, topic)
    act = checks.choice(act, "act", ACTS)
    reason = checks.reason(reason)
    row = lookup.subscription(topic, group)
    board = bus.breakers()
    before = board.look(topic, group)
    if (before.state == "closed") == (act == "close") and (act == "close" or before.forced):
        return before
    with transaction.atomic():
        after = {"open": {"breaker": "open, by a person"}, "close": {"breaker": "closed"}}[act]
        record_act(actor, f"subscription.breaker_{act}", row, reason, before={"breaker": before.state}, after=after)
        # Last inside the transaction: what the store refuses leaves no trace, and what it did has one.
        force = board.force_open if act == "open" else board.force_close
        standing = force(topic, group, f"{actor.name}: {reason}")
    fact_log.emitter().emit(
        [
            Fact(
                "breaker_opened" if act == "open" else "breaker_closed",
                SystemClock().now_ms(),
                topic=topic,
                subscription=group,
                node=store.node_name(),
                detail=f"decided by {actor.name}: {reason}"[:500],
            ).batch()
        ]
    )
    return standing
