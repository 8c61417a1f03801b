"""The breaker of a subscription, as a person opens and closes it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from engine.bus.breaker_board import Standing
from engine.bus.errors import UNANSWERED
from engine.bus.facts import Fact
from engine.core.clock import SystemClock
from engine.core.errors import BadInput, Conflict
from hbus_console import checks
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.already import already
from hbus_console.audit.decisions import (
    StoreDecision,
    carry_out,
    decided_at,
    found_done,
    last_decision,
    unanswered,
)
from hbus_console.audit.tries import EarlierTry, decided_for, decided_since, has_decided, own_try
from hbus_console.cluster import probes
from hbus_console.subscriptions.feature import SUBSCRIPTION_OPERATE
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import lookup
from hbus_console.topics.handler_errors import told_error, told_whole_from
from hbus_console.wiring import bus, fact_log, store

#: What a person may want of a breaker, and how the audit log says that it stands then.
ACTS = {"open": "open, by a person", "close": "closed", "try": "open, one message is tried"}
_ACTIONS = {act: f"subscription.breaker_{act}" for act in ACTS}
#: What to do when the answer was lost: nobody but who asks knows whether it is the same decision still.
_AGAIN = dict.fromkeys(ACTS, "Look at how it stands, and ask for it again where it does not stand so.") | {
    "try": "Look at how it stands. Ask for it again where it is open still: at most another message is tried."
}
#: How long it is taken for a person's doing that it stands as they wanted: later it may have come to that by itself.
FOUND_OUT_MS = 10 * 60_000


def breaker(actor: Actor, topic: str, group: str) -> Standing:
    """How it stands now: closed, whatever the store remembers, where the policy has none.

    Raises ``Forbidden`` and ``Unavailable``.
    """
    require(actor, VIEW, topic)
    row = lookup.subscription(topic, group)
    return told_to(actor, row, standing_of(row))


def told_to(actor: Actor, row: Subscription, standing: Standing) -> Standing:
    """As ``actor`` may know it: why it opened is what a handler said, unless a person did it."""
    if standing.forced:
        return standing
    told_from = told_whole_from(actor, row.topic.name, row.topic)
    return msgspec.structs.replace(standing, why=told_error(standing.why, standing.since_ms, told_from))


def standing_of(row: Subscription) -> Standing:
    """Likewise, for who has asked for the right; raises ``Unavailable``."""
    if not row.breaker_failures:
        # Its consumers have none and ask for none: what was open when the policy changed holds nothing any more.
        return Standing()
    return bus.breakers().look(row.topic.name, row.group)


def open_breakers(subscriptions: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Standing] | None:
    """Those that are not closed, with state, since when, why and whether a person did it; ``None`` while the store
    cannot be asked.
    """
    if probes.obstacle():
        return None
    guarded = _guarded()
    try:
        return bus.breakers().not_closed([one for one in subscriptions if one in guarded])
    except UNANSWERED:
        return None


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

    Raises ``Forbidden``, :class:`BadInput` at the field, ``Unavailable`` where nothing has changed, and
    ``OutcomeUnknown`` where nobody knows: whoever asks for the same again has it found out. Raises :class:`Conflict`
    where a request is repeated that may have been done, and somebody has decided since, or it has opened anew.
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
    action = _ACTIONS[act]
    tried = own_try(row.subject, actor, action)
    if _stands_so(before, act):
        if tried is not None and tried.done:
            return told_to(actor, row, before)
        last = last_decision(row.subject, _ACTIONS.values())
        lost = unanswered(last, actor, action)
        if lost and SystemClock().now_ms() - decided_at(lost).timestamp() * 1000 < FOUND_OUT_MS:
            found_done(actor, lost, row.subject)
            _tell(actor, row, act, reason)
        else:
            _say_so(row, before, act, reason)
        return told_to(actor, row, before)
    if tried is not None and _found_by_repeat(actor, row, tried, before, act):
        return told_to(actor, row, before)
    why = f"{actor.name}: {reason}"
    force = {
        "open": partial(board.force_open, topic, group, why),
        "close": partial(board.force_close, topic, group, why),
        "try": partial(board.force_trial, topic, group),
    }[act]
    stood = {"breaker": before.state, "since_ms": before.since_ms, "opens": before.opens, "forced": before.forced}
    decision = StoreDecision(actor, action, row.subject, reason, stood, {"breaker": ACTS[act]})
    standing = carry_out(decision, force, _AGAIN[act])
    _tell(actor, row, act, reason)
    return told_to(actor, row, standing)


def _tell(actor: Actor, row: Subscription, act: str, reason: str) -> None:
    if act == "try":
        # Whoever tries the message tells of it.
        return
    fact = Fact(
        "breaker_opened" if act == "open" else "breaker_closed",
        SystemClock().now_ms(),
        topic=row.topic.name,
        subscription=row.group,
        node=store.node_name(),
        detail=f"decided by {actor.name}: {reason}"[:500],
    )
    fact_log.emitter().emit([fact.batch()])


def _stands_so(now: Standing, act: str) -> bool:
    """Whether there is nothing to do."""
    if act == "open":
        return now.state != "closed" and now.forced
    return now.state == "closed" or (act == "try" and now.state == "probing")


def _found_by_repeat(actor: Actor, row: Subscription, tried: EarlierTry, now: Standing, act: str) -> bool:
    """Whether the first try of this request was done, although it does not stand so (any more); else it was not.

    Raises :class:`Conflict` where somebody has decided since, and where nobody knows.
    """
    if since := decided_since(tried, _ACTIONS.values()):
        told = has_decided(since, f"the breaker of {row.label}", decided_for(since, _ACTIONS))
        raise _overtaken(f"{_known(tried)}, and {told}.")
    if tried.done:
        return True
    before = tried.before
    # What a person opened only a person closes: then it was not opened. Entries of earlier versions tell less.
    if act == "open" or "since_ms" not in before:
        return False
    if now.since_ms != before["since_ms"]:
        raise _overtaken(f"{_known(tried)}, and the breaker of {row.label} has closed and opened anew since.")
    if act == "try" and (now.opens, now.forced) != (before.get("opens"), before.get("forced")):
        # A message was tried since then, or will be.
        found_done(actor, tried.decision, row.subject)
        return True
    return False


def _known(tried: EarlierTry) -> str:
    return "It was done" if tried.done else "Nobody knows whether it was done"


def _overtaken(what: str) -> Conflict:
    return Conflict(
        what,
        remedy="Look at how it stands. To do it all the same is another decision: ask for it anew, under another key.",
        field="act",
    )


def _say_so(row: Subscription, now: Standing, act: str, reason: str) -> None:
    if act == "open":
        already(row.subject, "has its breaker open", "subscription.breaker_open", reason=reason)
    elif now.state == "closed":
        # Most breakers close by themselves, which no entry tells.
        already(row.subject, "has its breaker closed", reason=reason)
    else:
        already(row.subject, "has a message tried", reason=reason)


def _guarded() -> set[tuple[str, str]]:
    """Those whose policy has a breaker; consumers of the others ask for none."""
    return set(Subscription.objects.filter(breaker_failures__gt=0).values_list("topic__name", "group"))
