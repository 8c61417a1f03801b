"""Publishing on behalf of an actor: by a program, or by a person's hand, which is audited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from engine.bus.errors import PublishUnknown
from engine.bus.message import Message
from engine.bus.options import PublishOptions
from engine.bus.producer import Receipt
from engine.bus.receipts import ReceiptStatus
from engine.bus.subjects import message_subject
from engine.core.errors import HbusError, OutcomeUnknown
from hbus_console.access import context
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.decisions import StoreDecision, carry_out, found_done, last_decision, unanswered
from hbus_console.publishing.feature import PUBLISH
from hbus_console.publishing.producer import shared_producer
from hbus_console.quotas.asking import PUBLISH as QUOTA
from hbus_console.quotas.asking import take

_PLAIN = PublishOptions()
_BY_HAND = "message.publish"


class _WasThere(HbusError):
    """What a person published came to nothing: it is there by its idempotency key, as another message."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__(
            f"Its idempotency key was used before, and this is the same: it is message {receipt.message_id}."
        )
        self.receipt = receipt


class MaybePublished(PublishUnknown):
    """Nobody knows whether what a person published is stored; it would be this message."""

    def __init__(self, lost: PublishUnknown, message_id: str) -> None:
        super().__init__(lost.what, remedy=lost.remedy, field=lost.field)
        self.message_id = message_id


def publish(actor: Actor, topic: str, payload: Any, options: PublishOptions = _PLAIN) -> Receipt:
    """Publish one JSON payload. Raises ``Forbidden`` and whatever :meth:`Producer.publish` raises."""
    require(actor, PUBLISH, topic)
    with charged(actor, topic):
        return shared_producer().publish(topic, payload, options)


@contextmanager
def charged(actor: Actor, topic: str, count: int = 1) -> Iterator[Callable[[int], None]]:
    """Publish so many within it: they count against the actor's limit for the topic. What gives some of them back is
    yielded; all are given back where it ends with an error by which it is certain that nothing is stored.

    Raises :class:`QuotaExceeded` before anything is done.
    """
    what = f"publish no more messages to {topic}" if count == 1 else f"publish no {count:,} more messages to {topic}"
    give_back = take(QUOTA, topic, actor.name, what, count)
    try:
        yield give_back
    except OutcomeUnknown:
        raise
    except HbusError:
        give_back(count)
        raise


def publish_once(actor: Actor, topic: str, payload: Any, key: str, *, type: str = "", partition_key: str = "") -> str:
    """Publish what belongs to ``key``, which is on the message as its correlation id: however often it is asked, one
    message is there; its id. Raises as :func:`publish`.
    """
    options = PublishOptions(type=type, key=partition_key, idempotency_key=key, correlation_id=key)
    return publish(actor, topic, payload, options).message_id


def check(actor: Actor, topic: str, payload: Any, options: PublishOptions = _PLAIN) -> Message:
    """Every check of a publish without publishing: the envelope that would be sent."""
    require(actor, PUBLISH, topic)
    return shared_producer().prepare(topic, payload, _followed(options))


def publish_by_hand(actor: Actor, topic: str, payload: Any, options: PublishOptions = _PLAIN) -> Receipt:
    """Publish as a person does in the console: audited with id and topic, never with the payload.

    The audit entry is written first, so that nothing published by hand can lack it; should the store refuse, or its
    answer be lost, a second entry says that nothing came of it, or that nobody knows. Nothing comes of it either where
    its idempotency key has published it before; if nobody knew that until now, the log says so of the original.
    """
    message = check(actor, topic, payload, options)
    keys = [options.idempotency_key] if options.idempotency_key else None

    def send() -> Receipt:
        answer = shared_producer().send(topic, [message], idempotency_keys=keys)[0]
        if isinstance(answer, PublishUnknown):
            if not keys:
                answer.remedy = "Look for it by this id first: published again it would be another message."
            raise MaybePublished(answer, message.id)
        if isinstance(answer, HbusError):
            raise answer
        if answer.status is ReceiptStatus.DUPLICATE and answer.message_id != message.id:
            raise _WasThere(answer)
        return answer

    after = {"topic": topic, "type": message.type, "key": message.partitionkey}
    try:
        with charged(actor, topic):
            return carry_out(StoreDecision(actor, _BY_HAND, message_subject(topic, message.id), after=after), send)
    except _WasThere as there:
        original = message_subject(topic, there.receipt.message_id)
        if lost := unanswered(last_decision(original, [_BY_HAND]), actor, _BY_HAND):
            found_done(actor, lost, original)
        return there.receipt


def _followed(options: PublishOptions) -> PublishOptions:
    """One correlation id leads from the request through log and audit to the message."""
    correlation_id = options.correlation_id or context.current().correlation_id
    return msgspec.structs.replace(options, correlation_id=correlation_id)
