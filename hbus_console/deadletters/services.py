"""What a person may do about a dead letter: publish it again to the subscription where it died, or discard it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec
from django.db import transaction

from engine.bus import message as envelope
from engine.bus.building import check_topic
from engine.bus.errors import UNANSWERED, MalformedEnvelope, PublishRefused
from engine.bus.facts import Fact
from engine.bus.message import Message
from engine.core.clock import Clock, SystemClock, to_datetime
from engine.core.errors import BadInput, NotThere
from engine.core.ids import new_id, trace_id_of
from hbus_console.access.acts import VIEW, Act
from hbus_console.access.context import as_it_is
from hbus_console.access.permissions import Actor, Forbidden, require, visible_scopes
from hbus_console.audit.services import record
from hbus_console.checks import reason as checked_reason
from hbus_console.deadletters import editing
from hbus_console.deadletters.feature import DEAD_LETTER_DISCARD, DEAD_LETTER_EDIT, DEAD_LETTER_REDRIVE
from hbus_console.deadletters.models import DeadLetter
from hbus_console.operations.outcomes import Fate, Outcome
from hbus_console.outbox import services as outbox
from hbus_console.outbox.models import OutboxMessage
from hbus_console.subscriptions.holding import holds
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics import catalog, lookup
from hbus_console.topics.leaving import record_leaving, require_call, require_return
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules
from hbus_console.topics.scopes import topic_filter
from hbus_console.ui.formats import num
from hbus_console.wiring import fact_log, store

_clock = SystemClock()
#: No other payload than the stored one.
_AS_IT_IS: Any = object()


@dataclass(frozen=True)
class Decision:
    """The letter as it stands now. ``done`` is false when somebody had decided before: then nothing was changed."""

    letter: DeadLetter
    done: bool

    @property
    def sentence(self) -> str:
        """What to tell the one who asked, within their request: the store may have to be told yet."""
        letter = self.letter
        if self.done and letter.state == DeadLetter.State.REDRIVEN:
            return as_it_is(f"Redriven to {letter.subscription} as {letter.redriven_as}.")
        if self.done:
            return f"Discarded. It stays listed and in the audit log, and {letter.subscription} will not see it again."
        was = "redriven" if letter.state == DeadLetter.State.REDRIVEN else "discarded"
        return f"Nothing was done: {letter.decided_by} had {was} it before."


def fate_of(letter: DeadLetter, known: Fate | None) -> Fate | None:
    """What is ``known`` of the letter's copy; where that waits in the outbox, it says so: nobody was handed it yet."""
    if known is None or known.outcome != Outcome.WAITING:
        return known
    unpublished = OutboxMessage.objects.filter(topic=letter.topic, message_id=letter.redriven_as).exists()
    return replace(known, detail="in the outbox: published once the store takes it") if unpublished else known


@dataclass(frozen=True)
class Effect:
    """What a redrive would do, read before anybody presses the button."""

    #: The subscription is still there to take it.
    wanted: bool
    #: Why the copy would wait, as the end of "it waits …"; empty: it would not.
    waits: str
    #: The letter is itself a copy that a redrive made, and died again.
    redriven: bool
    #: The original's expiry, when it has passed: the copy has none.
    expired_at: str
    #: Why it cannot be redriven at all; empty when it can.
    obstacle: str
    #: It would show what its topic masks, or masked when it died: the audit log would say so.
    reveals: bool


def letter_for(actor: Actor, letter_id: int, action: Act = VIEW) -> DeadLetter:
    """The letter; raises ``NotThere`` also when it lies in a topic that ``actor`` may not see, else ``Forbidden``."""
    letter = DeadLetter.objects.filter(topic_filter(visible_scopes(actor)), pk=letter_id).first()
    if letter is None:
        raise NotThere("There is no such dead letter.", remedy="List the dead letters.", field="id")
    require(actor, action, letter.topic)
    return letter


def effect(actor: Actor, letter: DeadLetter, *, clock: Clock = _clock) -> Effect:
    """The dry run of :func:`redrive` by ``actor``."""
    subscription = Subscription.objects.filter(topic__name=letter.topic, group=letter.subscription).first()
    pair = (letter.topic, letter.subscription)
    message, obstacle = _message(letter)
    reveals = False
    if message is not None and not (obstacle := _unwanted(letter, subscription)):
        try:
            reveals = any(_leaves(actor, lookup.topic(letter.topic), letter))
            obstacle = _refusal(letter, _copy(message, letter.subscription, clock.now_ms()))
        except Forbidden as error:
            obstacle = f"{error.what} {error.remedy}"
    return Effect(
        wanted=subscription is not None,
        waits=held.words if (held := holds([pair]).get(pair)) is not None and subscription is not None else "",
        redriven=message is not None and message.hbusreplay == "redrive",
        expired_at=message.expirytime if message is not None and has_expired(message, clock.now_ms()) else "",
        obstacle=obstacle,
        reveals=reveals,
    )


def redrive(actor: Actor, letter_id: int, reason: str, *, clock: Clock = _clock) -> Decision:
    """Publish the letter's message again, as a new message for the subscription where it died and no other.

    The copy has a new id, ``causationid`` naming the original, and the original's correlation, key and headers; an
    expiry that has passed is left out, because a person wants it handled now. It leaves through the outbox, so that
    letter, audit entry and message agree. A letter decided before is left alone: see :attr:`Decision.done`. Raises
    ``BadInput`` without a reason, or when the subscription, a legible envelope or the topic's owner is missing.
    """
    letter = letter_for(actor, letter_id, DEAD_LETTER_REDRIVE)
    why = checked_reason(reason)
    if letter.state != DeadLetter.State.DEAD:
        return Decision(letter, done=False)
    with transaction.atomic():
        if not redrive_now(actor, letter, why, clock=clock):
            return Decision(letter, done=False)
        _record(actor, "dead_letter.redrive", letter, why, redriven_as=letter.redriven_as)
    return Decision(letter, done=True)


def redrive_now(
    actor: Actor, letter: DeadLetter, reason: str, *, clock: Clock = _clock, edited: Any = _AS_IT_IS
) -> bool:
    """The decision and the copy, in the caller's transaction, without audit entry; the caller has asked for the act.

    ``False`` when somebody had decided before; the letter then tells what. Raises ``BadInput`` when it cannot be, and
    ``Forbidden`` unless ``actor`` may reveal it for a letter older than its topic, whose payload the present masks were
    not made for, and for one that goes to a webhook of a topic that masks something.
    """
    subscription = Subscription.objects.filter(topic__name=letter.topic, group=letter.subscription).first()
    original, obstacle = _message(letter)
    obstacle = obstacle or _unwanted(letter, subscription)
    check_topic(catalog.shared().topic(letter.topic))
    if original is None or obstacle:
        raise BadInput(f"It cannot be redriven: {obstacle}", remedy="Discard it, or make the subscription again.")
    topic = lookup.topic(letter.topic)
    returns, calls = _leaves(actor, topic, letter)
    now_ms = clock.now_ms()
    copy = _copy(original, letter.subscription, now_ms)
    if edited is not _AS_IT_IS:
        data = msgspec.Raw(msgspec.json.encode(edited))
        copy = msgspec.structs.replace(copy, data=data, extensions={**copy.extensions, "hbusedited": "true"})
    # Before the decision: a letter whose copy nobody takes stays to be decided.
    outbox.check(letter.topic, copy)
    if not _decide(letter, DeadLetter.State.REDRIVEN, actor, reason, now_ms, redriven_as=copy.id):
        letter.refresh_from_db()
        return False
    outbox.send_on_commit(letter.topic, copy)
    if returns or calls:
        where = {"topic": topic.name, "redriven_as": copy.id} | ({"subscription": letter.subscription} if calls else {})
        record_leaving(actor, letter.subject, MaskingRules.at(topic, letter.died_at), where, reason)
    how = "" if edited is _AS_IT_IS else "edited, "
    fact = _fact("redriven", letter, original, now_ms, f"{how}as {copy.id} by {actor.name}: {reason}")
    transaction.on_commit(lambda: fact_log.emitter().emit([fact.batch()]))
    return True


def redrive_edited(actor: Actor, letter_id: int, payload: Any, reason: str, *, clock: Clock = _clock) -> Decision:
    """Redrive the letter with another payload. The copy says that it was edited; the difference, masked, is audited.

    ``payload`` is JSON; a stand-in of a masked value means that value as it is stored. Raises as :func:`redrive`, and
    ``BadInput`` at ``payload`` when what is not masked breaks the topic's schema; ``Forbidden`` for a masked value that
    was changed by somebody who may not reveal it.
    """
    letter = letter_for(actor, letter_id, DEAD_LETTER_EDIT)
    why = checked_reason(reason)
    if letter.state != DeadLetter.State.DEAD:
        return Decision(letter, done=False)
    obstacle = editing.draft(letter).obstacle
    original, _ = _message(letter)
    if original is None or obstacle:
        raise BadInput(obstacle, remedy="Redrive it as it is, or discard it.", field="payload")
    edit = editing.merged(actor, letter, original, payload)
    editing.require_fit(letter, edit)
    with transaction.atomic():
        if not redrive_now(actor, letter, why, clock=clock, edited=edit.payload):
            return Decision(letter, done=False)
        record(
            actor,
            "dead_letter.edit",
            letter.subject,
            reason=why,
            before={"state": DeadLetter.State.DEAD.value, "payload": editing.visible(letter, original.json())},
            after={
                "state": letter.state,
                "payload": editing.visible(letter, edit.payload),
                "letter": letter.pk,
                "redriven_as": letter.redriven_as,
            },
        )
    return Decision(letter, done=True)


def discard(actor: Actor, letter_id: int, reason: str, *, clock: Clock = _clock) -> Decision:
    """Decide that the letter shall not be handled. Its row stays, with who, when and why. Raises as :func:`redrive`."""
    letter = letter_for(actor, letter_id, DEAD_LETTER_DISCARD)
    why = checked_reason(reason)
    with transaction.atomic():
        if not discard_now(actor, letter, why, clock=clock):
            return Decision(letter, done=False)
        _record(actor, "dead_letter.discard", letter, why)
    return Decision(letter, done=True)


def discard_now(actor: Actor, letter: DeadLetter, reason: str, *, clock: Clock = _clock) -> bool:
    """The decision alone; as :func:`redrive_now`."""
    now_ms = clock.now_ms()
    if not _decide(letter, DeadLetter.State.DISCARDED, actor, reason, now_ms):
        letter.refresh_from_db()
        return False
    original, _ = _message(letter)
    fact = _fact("discarded", letter, original, now_ms, f"by {actor.name}: {reason}")
    transaction.on_commit(lambda: fact_log.emitter().emit([fact.batch()]))
    return True


def _decide(
    letter: DeadLetter, state: DeadLetter.State, actor: Actor, reason: str, now_ms: int, *, redriven_as: str = ""
) -> bool:
    """Take the decision if nobody has: of two clicks at once the database lets one through."""
    values = {
        "state": state,
        "decided_by": actor.name,
        "decided_at": to_datetime(now_ms),
        "reason": reason,
        "redriven_as": redriven_as,
    }
    if not DeadLetter.objects.filter(pk=letter.pk, state=DeadLetter.State.DEAD).update(**values):
        return False
    for name, value in values.items():
        setattr(letter, name, value)
    return True


def _record(actor: Actor, action: str, letter: DeadLetter, reason: str, *, redriven_as: str = "") -> None:
    after = {"state": letter.state, "subscription": letter.subscription, "letter": letter.pk}
    record(
        actor,
        action,
        letter.subject,
        reason=reason,
        before={"state": DeadLetter.State.DEAD.value, "cause": letter.cause, "attempts": letter.attempts},
        after=after | ({"redriven_as": redriven_as} if redriven_as else {}),
    )


def _unwanted(letter: DeadLetter, subscription: Subscription | None) -> str:
    return f"{letter.subscription} is no longer subscribed to {letter.topic}." if subscription is None else ""


def _leaves(actor: Actor, topic: Topic, letter: DeadLetter) -> tuple[bool, bool]:
    """Whether a copy shows what was masked when it died, and whether a webhook is sent what is masked now.

    Raises ``Forbidden`` unless ``actor`` may do both.
    """
    return require_return(actor, topic, letter.died_at), require_call(actor, topic, letter.subscription)


def _refusal(letter: DeadLetter, copy: Message) -> str:
    """Why the topic would not take the copy; empty: it would."""
    try:
        outbox.check(letter.topic, copy)
    except PublishRefused as error:
        return f"{error.what} {error.remedy}"
    except UNANSWERED:
        # Nothing is known against it.
        return ""
    return ""


def why_refused(letter: DeadLetter, original: Message, now_ms: int) -> str:
    """Why the topic would not take a copy of the letter's message, as one for the dry run of many: without what differs
    from letter to letter. Empty: it would."""
    copy = _copy(original, letter.subscription, now_ms)
    try:
        policy = catalog.shared().topic(letter.topic)
        outbox.check(letter.topic, copy)
    except PublishRefused as error:
        too_large = error.field == "payload"
        return f"larger than the {num(policy.max_bytes)} bytes that {letter.topic} takes" if too_large else error.what
    except UNANSWERED:
        return ""
    return ""


def _message(letter: DeadLetter) -> tuple[Message | None, str]:
    try:
        return envelope.decode(bytes(letter.body)), ""
    except MalformedEnvelope as error:
        return None, f"its envelope is unreadable ({editing.why_unreadable(letter, error)})"


def _copy(original: Message, subscription: str, now_ms: int) -> Message:
    return msgspec.structs.replace(
        original,
        id=new_id(now_ms),
        causationid=original.id,
        hbusreplay="redrive",
        hbustarget=subscription,
        hbusdue="",
        expirytime="" if has_expired(original, now_ms) else original.expirytime,
    )


def has_expired(message: Message, now_ms: int) -> bool:
    """Whether its expiry has passed; so says an instant that nobody can read, too."""
    try:
        expires_ms = message.expires_ms()
    except ValueError:
        # An instant nobody can read may be what it died of; the copy goes without it.
        return True
    return expires_ms is not None and expires_ms <= now_ms


def _fact(kind: str, letter: DeadLetter, original: Message | None, now_ms: int, detail: str) -> Fact:
    return Fact(
        kind,
        now_ms,
        topic=letter.topic,
        subscription=letter.subscription,
        message_id=letter.message_id,
        key=letter.key,
        correlation_id=letter.correlation_id,
        trace_id=trace_id_of(original.traceparent) if original is not None else "",
        source=letter.source,
        position=letter.position,
        node=store.node_name(),
        fingerprint=letter.fingerprint,
        detail=detail,
    )
