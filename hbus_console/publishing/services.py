"""Publishing on behalf of an actor: by a program, or by a person's hand, which is audited."""

from __future__ import annotations

from typing import Any

import msgspec
from django.db import transaction

from engine.bus.message import Message
from engine.bus.options import PublishOptions
from engine.bus.producer import Receipt
from engine.bus.subjects import message_subject
from engine.core.errors import HbusError
from hbus_console.access import context
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.services import record
from hbus_console.publishing.feature import PUBLISH
from hbus_console.publishing.producer import shared_producer

_PLAIN = PublishOptions()


def publish(actor: Actor, topic: str, payload: Any, options: PublishOptions = _PLAIN) -> Receipt:
    """Publish one JSON payload. Raises ``Forbidden`` and whatever :meth:`Producer.publish` raises."""
    require(actor, PUBLISH, topic)
    return shared_producer().publish(topic, payload, options)


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

    The audit entry is written first, so that nothing published by hand can lack it; should the store refuse, a second
    entry says that nothing came of it.
    """
    message = check(actor, topic, payload, options)
    _audit(actor, "message.publish", topic, message, {"type": message.type, "key": message.partitionkey})
    keys = [options.idempotency_key] if options.idempotency_key else None
    answer = shared_producer().send(topic, [message], idempotency_keys=keys)[0]
    if isinstance(answer, HbusError):
        _audit(actor, "message.publish.failed", topic, message, {"why": answer.what})
        raise answer
    return answer


def _followed(options: PublishOptions) -> PublishOptions:
    """One correlation id leads from the request through log and audit to the message."""
    correlation_id = options.correlation_id or context.current().correlation_id
    return msgspec.structs.replace(options, correlation_id=correlation_id)


@transaction.atomic
def _audit(actor: Actor, action: str, topic: str, message: Message, after: dict[str, str]) -> None:
    record(actor, action, message_subject(topic, message.id), after={"topic": topic, **after})
