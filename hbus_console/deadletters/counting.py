"""How many dead letters wait for a decision."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db.models import Count, Max

from engine.core.clock import SystemClock
from hbus_console.access.permissions import Actor, visible_scopes
from hbus_console.access.scopes import scopes_q
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence import freshness
from hbus_console.evidence.freshness import Freshness
from hbus_console.ui import formats

#: The menu stands on every page, so it counts no further.
MOST_COUNTED = 10_000
_clock = SystemClock()


def waiting(who: Actor) -> int | str:
    """How many there are in what ``who`` may see, as :func:`in_menu` says it; an ``int`` where that is all of it."""
    rows = DeadLetter.objects.filter(scopes_q(visible_scopes(who), "topic"), state=DeadLetter.State.DEAD)
    counted = rows.order_by()[:MOST_COUNTED].count()
    if not counted:
        # As it is on most pages: there is nothing to say since when.
        return counted
    of = freshness.dead_letters(_clock.now_ms())
    return counted if of.known and counted < MOST_COUNTED else in_menu(counted, of)


def in_menu(count: int, of: Freshness) -> str:
    """``37``, ``≥ 37`` where more may lie in the store, and ``9,999+`` from :data:`MOST_COUNTED` on. Of none it says
    ``0`` in either case, which the menu hides.
    """
    if count >= MOST_COUNTED:
        return f"{formats.num(MOST_COUNTED - 1)}+"
    return told(count, of) if count else formats.num(0)


def by_topic(scopes: tuple[str, ...]) -> dict[str, int]:
    """How many there are of each topic in ``scopes`` that has any."""
    rows = DeadLetter.objects.filter(scopes_q(scopes, "topic"), state=DeadLetter.State.DEAD).values_list("topic")
    return dict(rows.annotate(count=Count("id")).order_by())


def by_subscription(scopes: tuple[str, ...]) -> dict[tuple[str, str], tuple[int, datetime]]:
    """How many there are of each (topic, subscription) in ``scopes`` that has any, and when the newest died."""
    rows = DeadLetter.objects.filter(scopes_q(scopes, "topic"), state=DeadLetter.State.DEAD)
    counted = rows.values_list("topic", "subscription").annotate(count=Count("*"), newest=Max("died_at")).order_by()
    return {(topic, subscription): (count, newest) for topic, subscription, count, newest in counted}


def told(count: int, of: Freshness) -> str:
    """``37``; where more may lie in the store that nobody has taken over ``≥ 37``, or an en dash."""
    if of.known:
        return formats.num(count)
    return f"≥ {formats.num(count)}" if count else formats.NOTHING


def letters(count: int, of: Freshness, verb: str = "") -> str:
    """The beginning of a sentence on some: ``A dead letter``, ``37 dead letters``, ``≥ 37 dead letters``; with a verb
    in the plural that ends in no s, ``A dead letter waits``."""
    if count == 1 and of.known:
        return f"A dead letter {verb}s" if verb else "A dead letter"
    return f"{told(count, of)} dead letters {verb}".rstrip()


def waits(count: int, of: Freshness) -> str:
    """What stands beside a count of them."""
    if not of.known:
        return f"more are {of.why}" if count else of.why
    return formats.agreeing(count, "waits for a decision", "wait for a decision", none="none waits for a decision")


def where(dead: Mapping[str, int], of: Freshness) -> str:
    """Where they are, given how many of each topic: ``37 on booking.changed``."""
    if not dead or not of.known:
        return waits(sum(dead.values()), of)
    topic, count = max(dead.items(), key=lambda item: item[1])
    return f"all on {topic}" if len(dead) == 1 else f"{formats.num(count)} on {topic}"
