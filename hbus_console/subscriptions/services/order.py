"""Parked keys of an ordered subscription: what an operator decides about them."""

from __future__ import annotations

from django.db import transaction

from engine.bus import dead
from engine.bus.errors import MalformedEnvelope
from engine.bus.facts import Fact
from engine.bus.message import decode
from engine.bus.partitions import Parked, Partitioned, Unparked
from engine.core.clock import SystemClock
from engine.core.errors import BadInput, Conflict
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.subscriptions.feature import SUBSCRIPTION_OPERATE
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import lookup
from hbus_console.subscriptions.services.subscriptions import record_act
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
#: The longest key there is, in characters.
_LONGEST_KEY = 200
#: How many parked keys are looked through for one.
_KEYS = 10_000


def carrier(row: Subscription) -> Partitioned | None:
    """What keeps the order of the subscription's topic; ``None`` when it has none."""
    transport = bus.transport(row.topic.transport)
    return transport if row.topic.ordering == "key" and isinstance(transport, Partitioned) else None


def unpark(actor: Actor, topic: str, group: str, key: str, *, head: str, reason: str) -> Unparked:
    """End the parking of a key; ``head`` is one of :data:`HEADS`.

    Raises ``Forbidden``, :class:`BadInput` at the field, :class:`Conflict` when the key is not parked (any more), and
    ``Unavailable``; then nothing has changed.
    """
    require(actor, SUBSCRIPTION_OPERATE, topic)
    key = checks.text(key, "key", most=_LONGEST_KEY, required=True)
    head = checks.choice(head, "head", HEADS)
    reason = checks.reason(reason)
    row = lookup.subscription(topic, group)
    keeper = carrier(row)
    if keeper is None:
        raise BadInput(f"{row.label} keeps no order, so it parks no key.", remedy="Nothing waits here.", field="key")
    parked = next((each for each in keeper.parked(topic, group, _KEYS) if each.key == key), None)
    if parked is None:
        raise _not_parked(row, key)
    with transaction.atomic():
        record_act(
            actor,
            f"subscription.unpark_{head}",
            row,
            reason,
            before={"key": key, "partition": parked.partition, "head": parked.position, "messages": parked.messages},
            after={"key": key, "parked": False},
        )
        # Last inside the transaction: what the store refuses leaves no trace, and what it did has one.
        done = keeper.unpark(topic, group, key, head)
        if done is None:
            raise _not_parked(row, key)
    fact_log.emitter().emit([_fact(actor, row, parked, done, (head, reason)).batch()])
    return done


def _not_parked(row: Subscription, key: str) -> Conflict:
    return Conflict(
        f"{key!r} is not parked in {row.label}.", remedy="Somebody has decided already: look again.", field="key"
    )


def _fact(actor: Actor, row: Subscription, parked: Parked, done: Unparked, decided: tuple[str, str]) -> Fact:
    """What is said of the head; a head that retention by hand has taken is named by its position."""
    head, reason = decided
    record = dead.decode(parked.record)
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
        attempt=record.attempts,
        node=store.node_name(),
        error=record.error.partition("\n")[0][:500] if head == "dead" else "",
        fingerprint=record.fingerprint if head == "dead" else "",
        detail=f"{DECIDED} {actor.name}: {reason}"[:500],
    )
