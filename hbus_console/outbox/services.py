"""The way of a message into the outbox, and what a person may do about those that were refused."""

from __future__ import annotations

from secrets import token_urlsafe
from typing import Any

import redis
import structlog
from django.conf import settings
from django.db import connection, transaction

from engine.bus import message as envelope
from engine.bus.message import Message
from engine.bus.options import PublishOptions
from engine.bus.subjects import topic_subject
from engine.bus.transport import Priority
from engine.core.clock import from_rfc3339
from engine.core.error_text import words_of
from hbus_console import checks
from hbus_console.access.context import note_owed
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.services import record
from hbus_console.outbox.fitting import fitting
from hbus_console.outbox.models import OutboxMessage
from hbus_console.publishing.feature import PUBLISH
from hbus_console.publishing.producer import incarnation_of, shared_producer
from hbus_console.wiring import store

_log = structlog.get_logger(__name__)


def wake_key() -> str:
    """The list in the store that wakes the relay."""
    return f"{settings.HBUS_PREFIX}:{{outbox}}:wake"


def publish_on_commit(topic: str, payload: Any, options: PublishOptions | None = None) -> str:
    """Publish ``payload`` if, and only if, the caller's transaction commits; returns the message id.

    Everything a publish checks is checked now, so a refusal (``PublishRefused``) can still roll the transaction back.
    Messages of one key leave in the order of these calls. Raises ``RuntimeError`` outside a transaction.
    """
    options = options or PublishOptions()
    message = shared_producer().prepare(topic, payload, options)
    send_on_commit(topic, message, idempotency_key=options.idempotency_key)
    return message.id


def send_on_commit(topic: str, message: Message, *, idempotency_key: str = "") -> None:
    """The same for an envelope that is ready (a redriven copy); its schema is not checked again."""
    if not connection.in_atomic_block:
        raise RuntimeError("The outbox belongs to the transaction of a message's cause; open one with atomic().")
    check(topic, message)
    OutboxMessage.objects.create(
        topic=topic,
        incarnation=incarnation_of(topic),
        key=fitting(message.partitionkey, 200),
        message_id=message.id,
        # Kept in the row, so that every try has the same. Who could guess it could ask the bus whether the payload is
        # what they think, and could take the key before the relay does.
        idempotency_key=idempotency_key or f"outbox:{token_urlsafe(16)}",
        body=envelope.encode(message),
        priority=_priority(message),
        due_ms=from_rfc3339(message.hbusdue) if message.hbusdue else 0,
    )
    transaction.on_commit(wake_relay)


def _priority(message: Message) -> str:
    """As whoever reads it takes it: a word that means nothing is none."""
    known = message.hbuspriority in {priority.value for priority in Priority}
    return message.hbuspriority if known else Priority.NORMAL.value


def check(topic: str, message: Message) -> None:
    """Raise what the relay would be refused for good, while the cause of the message can still be rolled back."""
    shared_producer().check(topic, message)


def wake_relay() -> None:
    """Tell the relay that there is work. Without the store it finds it by itself, and whoever asked is told that it
    waits.
    """
    try:
        wake = store.client().pipeline(transaction=False)
        wake.lpush(wake_key(), 1)
        wake.ltrim(wake_key(), 0, 0)
        wake.execute()
    except redis.RedisError as error:
        note_owed("publish what is in the outbox")
        _log.info("outbox relay not woken", error=words_of(error))


def retry_refused(actor: Actor, topic: str, reason: str) -> int:
    """Offer a topic's refused outbox messages to the bus again; returns how many there were."""
    require(actor, PUBLISH, topic)
    reason = checks.reason(reason)
    with transaction.atomic():
        count = OutboxMessage.objects.filter(topic=topic, refused_at__isnull=False).update(
            refused_at=None, last_error=""
        )
        record(actor, "outbox.retry", topic_subject(topic), reason=reason, after={"messages": count})
        transaction.on_commit(wake_relay)
    return count
