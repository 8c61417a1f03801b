"""The breaker of a subscription, as a person opens and closes it."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from engine.bus.breaker_board import Standing
from engine.bus.errors import UNANSWERED
from engine.bus.facts import Fact
from engine.core.clock import SystemClock
from engine.core.errors import BadInput
from hbus_console import checks
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.already import already
from hbus_console.cluster import probes
from hbus_console.subscriptions.feature import SUBSCRIPTION_OPERATE
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import lookup
from hbus_console.subscriptions.services.subscriptions import record_act
from hbus_console.wiring import bus, fact_log, store

#: What a person may want of a breaker, and how the audit log says that it stands then.
ACTS = {"open": "open, by a person", "close": "closed", "try": "open, one message is tried"}


def breaker(actor: Actor, topic: str, group: str) -> Standing:
    """How it stands now: closed, whatever the store remembers, where the policy has none.

    Raises ``Forbidden`` and ``Unavailable``.
    """
    require(actor, VIEW, topic)
    row = lookup.subscription(topic, group)
    return standing_of(row)


def standing_of(row: Subscription) -> Standing:
    """Likewise, for who has asked for the right; raises ``Unavailable``."""
    if not row.breaker_failures:
        # Its consumers have none and ask for none: what was open when the policy changed holds nothing any more.
        return Standing()
    return bus.breakers().look(row.topic.name, row.group)


def open_breakers(subscriptions: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Standing]:
    """Those that are not closed, with state, since when, why and whether a person did it.

    None while the store cannot be asked, which other places say.
    """
    if probes.obstacle():
        return {}
    guarded = _guarded()
    try:
        return bus.breakers().not_closed([one for one in subscriptions if one in guarded])
    except UNANSWERED:
        return {}


def outages() -> dict[tuple[str, str], int] | None:
    """Since when those are open that are not closed, epoch milliseconds; ``None`` while the store cannot be asked."""
    if probes.obstacle():
        return None
    try:
        return bus.breakers().outages(sorted(_guarded()))
    except UNANSWERED:
        return None


def set_breaker(actor: Actor, topic: str, group: str, act: str, reason: str) -> Standing:
    """Open it, until a person closes it; close it, until failures open it again; or try one message, which closes an
    open one when it is handled. ``act`` is one of :data:`ACTS`.

    Raises ``Forbidden``, :class:`BadInput` at the field, and ``Unavailable``; then nothing has changed.
    """
    require(actor, SUBSCRIPTION_OPERATE, topic)
    act = checks.choice(act, "act", ACTS)
    reason = checks.reason(reason)
    row = lookup.subscription(topic, group)
    if act == "open" and not row.breaker_failures:
        raise BadInput(
            f"{row.label} has no breaker to open: its policy counts no failures.",
            remedy="Pause the subscription, or give its policy a breaker.",
            field="act",
        )
    board = bus.breakers()
    before = board.look(topic, group)
    if _stands_so(row, before, act):
        return before
    with transaction.atomic():
        after = {"breaker": ACTS[act]}
        record_act(actor, f"subscription.breaker_{act}", row, reason, before={"breaker": before.state}, after=after)
        # Last inside the transaction: what the store refuses leaves no trace, and what it did has one.
        if act == "try":
            # No fact: whoever tries the message tells of it.
            return board.force_trial(topic, group)
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


def _stands_so(row: Subscription, now: Standing, act: str) -> bool:
    """Whether there is nothing to do, which is said then."""
    if act == "open" and now.state != "closed" and now.forced:
        already(row.subject, "has its breaker open", "subscription.breaker_open")
    elif act != "open" and now.state == "closed":
        # Most breakers close by themselves, which no entry tells.
        already(row.subject, "has its breaker closed")
    elif act == "try" and now.state == "probing":
        already(row.subject, "has a message tried")
    else:
        return False
    return True


def _guarded() -> set[tuple[str, str]]:
    """Those whose policy has a breaker; consumers of the others ask for none."""
    return set(Subscription.objects.filter(breaker_failures__gt=0).values_list("topic__name", "group"))
