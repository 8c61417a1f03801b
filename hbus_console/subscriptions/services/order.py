"""Parked keys of an ordered subscription: what an operator decides about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.bus import dead
from engine.bus.errors import MalformedEnvelope
from engine.bus.facts import Fact
from engine.bus.message import decode
from engine.bus.partitions import Parked, Partitioned, Unparked
from engine.bus.transport import Stored
from engine.core.clock import SystemClock
from engine.core.errors import BadInput, Conflict
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.decisions import StoreDecision, carry_out, found_done, has_unanswered, last_decision, unanswered
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.tries import EarlierTry, decided_for, decided_since, has_decided, own_try
from hbus_console.subscriptions.feature import SUBSCRIPTION_OPERATE
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import lookup
from hbus_console.ui.formats import instant
from hbus_console.wiring import bus, fact_log, store

#: What may become of the message that parked its key, with what is said of it afterwards.
HEADS = {
    "retry": "its messages come again, the failed one first with all its attempts",
    "skip": "the failed message counts as settled without having been handled, and the rest comes again",
    "dead": "the failed message is a dead letter now, and the rest comes again",
}
#: The fact that tells each of them, and how its detail begins.
FACT_OF = {"retry": "unparked", "skip": "skipped", "dead": "dead"}
DECIDED = "decided by"
_ACTIONS = {head: f"subscription.unpark_{head}" for head in HEADS}
#: So much of a key is told, in characters: as many as a legal one has at most.
_TOLD = 200


def carrier(row: Subscription) -> Partitioned | None:
    """What keeps the order of the subscription's topic; ``None`` when it has none."""
    transport = bus.transport(row.topic.transport)
    return transport if row.topic.ordering == "key" and isinstance(transport, Partitioned) else None


def unpark(actor: Actor, topic: str, group: str, key: str, *, head: str, reason: str) -> Unparked:
    """End the parking of a key, named by itself or by the position of its head; ``head`` is one of :data:`HEADS`.

    A key that is parked in several partitions, where a foreign writer put it, has a head in each, and is named by one.
    Whoever asks again after an answer was lost is told that it was done, if it was, and nothing is done twice: a
    request that is repeated is about the parking that its first try met, and no later one. Raises ``Forbidden``,
    :class:`BadInput` at the field, :class:`Conflict` when the key is not parked (any more), somebody has decided since,
    or somebody does in this moment, and ``Unavailable``, where nothing has changed; ``OutcomeUnknown`` where nobody
    knows.
    """
    require(actor, SUBSCRIPTION_OPERATE, topic)
    if not isinstance(key, str) or not key:
        raise BadInput("The key is needed.", remedy="Name the key, or the position of its head.", field="key")
    head = checks.choice(head, "head", HEADS)
    reason = checks.reason(reason)
    row = lookup.subscription(topic, group)
    keeper = carrier(row)
    if keeper is None:
        raise BadInput(f"{row.label} keeps no order, so it parks no key.", remedy="Nothing waits here.", field="key")
    # Whatever bytes a stranger wrote for a key, somebody can decide about it: no form and no address has to carry them.
    named = keeper.parked(topic, group, key=key) or keeper.parked(topic, group, head=key)
    if tried := own_try(row.subject, actor, _ACTIONS[head]):
        if done := _found_by_repeat(actor, row, tried, named, (head, reason)):
            return done
        named = [each for each in named if _is_parking(tried.before, each)]
    if len(named) > 1:
        heads = ", ".join(f"{each.position} in partition {each.partition}" for each in named)
        raise BadInput(
            f"{spelt(key)!r} is parked in {len(named)} partitions.",
            remedy=f"Name the position of the head that is meant: {heads}.",
            field="key",
        )
    parked = named[0] if named else None
    last = lost = None
    # Only where it may matter: there may be thousands of decisions.
    if parked is None or has_unanswered(row.subject, actor, _ACTIONS[head]):
        last = last_decision(row.subject, _ACTIONS.values(), lambda entry: _is_about(entry, parked, key))
        lost = unanswered(last, actor, _ACTIONS[head])
    if lost and (parked is None or not _is_parking(lost.before or {}, parked)):
        done = _found_done(actor, row, lost, (head, reason))
        if parked is not None:
            raise _parked_since(lost.before or {}, parked)
        return done
    if parked is None:
        raise _not_parked(row, key, last)
    before = {"key": spelt(parked.key), **_parking(parked), "messages": parked.messages}
    after = {"key": before["key"], "parked": False}

    def do() -> Unparked:
        done = keeper.unpark(topic, group, parked.key, head, parked.partition, seen=parked)
        if done is None:
            raise _ended_meanwhile(row, keeper, parked)
        return done

    done = carry_out(StoreDecision(actor, _ACTIONS[head], row.subject, reason, before, after), do)
    fact_log.emitter().emit([_fact(actor, row, parked, done, (head, reason)).batch()])
    return done


def _is_about(entry: AuditEntry, parked: Parked | None, named: str) -> bool:
    """Whether a decision was about that key, which may be named by the position of its head."""
    before = entry.before or {}
    if parked is not None:
        if before.get("partition") != parked.partition:
            return False
        told = spelt(parked.key)
        # Of the longest ones no more than the beginning is told, which is others' as well.
        return before.get("key") == told and (len(told) < _TOLD or before.get("head") == parked.position)
    return spelt(named) == before.get("key") or named == before.get("head")


def _parking(parked: Parked) -> dict[str, Any]:
    """What tells one parking of a key from another: a head that is retried may park it again where it lies."""
    parked_ms = dead.legible(parked.record).died_ms if parked.record else 0
    return {"partition": parked.partition, "head": parked.position, "parked_ms": parked_ms}


def _is_parking(before: Mapping[str, Any], parked: Parked) -> bool:
    """Whether it is the parking that was decided about when it stood so."""
    return _are_same(before, _parking(parked))


def _are_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    # Entries of earlier versions do not tell when it was parked.
    when = "parked_ms" in one and "parked_ms" in other
    return all(one.get(name) == other.get(name) for name in ("partition", "head", *["parked_ms"] * when))


def _found_by_repeat(
    actor: Actor, row: Subscription, tried: EarlierTry, named: Sequence[Parked], decided: tuple[str, str]
) -> Unparked | None:
    """What the first try of this request did; ``None`` where all stands as it did then, and it did nothing.

    Raises :class:`Conflict` where nobody knows, and somebody has decided about the same parking since.
    """
    if tried.done:
        return _told_of(row, tried.before, decided[0])
    others = decided_since(tried, _ACTIONS.values(), lambda entry: _are_same(tried.before, entry.before or {}))
    if others is not None:
        since = has_decided(others, "the same parked message", decided_for(others, _ACTIONS))
        raise Conflict(
            f"Nobody knows whether it was done, and {since}.",
            remedy="Look at which keys are parked. To decide about one is another decision: under another key.",
            field="key",
        )
    if any(_is_parking(tried.before, each) for each in named):
        return None
    return _found_done(actor, row, tried.decision, decided)


def _told_of(row: Subscription, before: Mapping[str, Any], head: str) -> Unparked:
    """What a decision did that was carried out when it stood so."""
    position, partition = str(before.get("head", "")), int(before.get("partition", 0))
    body = bus.admin(row.topic.transport).read(row.topic.name, position) if position else None
    # Told of what was parked, the head included, which comes again only if it is retried.
    back = max(0, int(before.get("messages", 0)) - (head != "retry"))
    return Unparked(back, partition, body or Stored(position, 0, b""))


def _found_done(actor: Actor, row: Subscription, lost: AuditEntry, decided: tuple[str, str]) -> Unparked:
    """What nobody knew the outcome of was done: its key is not parked any more, or anew."""
    head, _ = decided
    before = lost.before or {}
    # First: once it is written down nobody comes here again to tell of the head.
    done = _told_of(row, before, head)
    found_done(actor, lost, row.subject)
    if head != "dead":
        # Of a death its letter tells more.
        was = Parked(str(before.get("key", "")), done.partition, str(before.get("head", "")), done.messages, b"")
        fact_log.emitter().emit([_fact(actor, row, was, done, decided).batch()])
    return done


def _ended_meanwhile(row: Subscription, keeper: Partitioned, seen: Parked) -> Conflict:
    """Of a parking that ended between the look and the act."""
    same = [each for each in keeper.parked(row.topic.name, row.group, key=seen.key) if each.partition == seen.partition]
    if not same:
        return _not_parked(row, seen.key, None)
    again = _again_by(seen.position, same[0])
    return Conflict(
        f"Somebody else has decided about {spelt(seen.key)!r} meanwhile, and {again} since.",
        remedy="Look at that one, then decide about it.",
        field="key",
    )


def _again_by(head: object, now: Parked) -> str:
    return "it has parked again" if now.position == head else "another message has parked it"


def _parked_since(before: Mapping[str, Any], now: Parked) -> Conflict:
    return Conflict(
        f"What you had decided about {spelt(now.key)!r} was done, and {_again_by(before.get('head'), now)} since.",
        remedy="Look at that one, then decide about it.",
        field="key",
    )


def spelt(key: str) -> str:
    """A key as it is told of: what cannot be printed as an escape, and no more of it than a legal one may have."""
    return key[:_TOLD] if key.isprintable() else key.encode("unicode_escape").decode()[:_TOLD]


def _not_parked(row: Subscription, key: str, last: AuditEntry | None) -> Conflict:
    remedy = "Look again at which keys are parked."
    if last is not None:
        decided = decided_for(last, _ACTIONS)
        remedy = f"{last.actor} decided about it at {instant(last.at):%d %b %H:%M} ({decided}): look again."
    return Conflict(f"{key[:_TOLD]!r} is not parked in {row.label}.", remedy=remedy, field="key")


def _fact(actor: Actor, row: Subscription, parked: Parked, done: Unparked, decided: tuple[str, str]) -> Fact:
    """What is said of the head; a head that retention by hand has taken is named by its position."""
    head, reason = decided
    record = dead.legible(parked.record) if parked.record else None
    message = None
    if done.head is not None:
        try:
            message = decode(done.head.body)
        except MalformedEnvelope:
            # It had a key, so it was readable once; the evidence can do without the rest.
            message = None
    return Fact(
        FACT_OF[head],
        SystemClock().now_ms(),
        topic=row.topic.name,
        subscription=row.group,
        message_id=message.id if message else "",
        key=parked.key,
        type=message.type if message else "",
        source=message.source if message else "",
        position=parked.position,
        attempt=record.attempts if record else 0,
        node=store.node_name(),
        error=record.error.partition("\n")[0][:500] if record and head == "dead" else "",
        fingerprint=record.fingerprint if record and head == "dead" else "",
        detail=f"{DECIDED} {actor.name}: {reason}"[:500],
    )
