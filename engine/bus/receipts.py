"""How a publish is answered: a receipt, or the error that says what became of the message."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from engine.bus.delay_answers import TAKEN
from engine.bus.errors import IdempotencyConflict, PublishFailed, PublishUnknown
from engine.bus.transport import Outcome, Status
from engine.core.errors import HbusError


class ReceiptStatus(StrEnum):
    """What became of a publish that was not refused."""

    STORED = "stored"
    #: The idempotency key was seen before with the same body: nothing was stored again.
    DUPLICATE = "duplicate"
    #: Kept until its due time.
    DELAYED = "delayed"


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """The store's confirmation. For a duplicate, id and position are the original's; a delayed one has no position, and
    none has on a transport that tells none."""

    message_id: str
    topic: str
    position: str
    status: ReceiptStatus
    #: Epoch milliseconds; 0 unless it was delayed.
    due_ms: int = 0


Answer = Receipt | HbusError


def answer_to(topic: str, outcome: Outcome, *, due_ms: int = 0) -> Answer:
    """What the publisher is told of ``outcome``; ``due_ms`` is set for what went to the delay path."""
    if outcome.status is Status.OK:
        status = ReceiptStatus.DELAYED if due_ms else ReceiptStatus.STORED
        return Receipt(outcome.message_id, topic, outcome.position, status, due_ms)
    if outcome.status is Status.DUPLICATE:
        return Receipt(outcome.message_id, topic, outcome.position, ReceiptStatus.DUPLICATE, due_ms)
    if outcome.status is Status.CONFLICT:
        if outcome.error == TAKEN:
            return IdempotencyConflict(
                f"Message {outcome.message_id} was not kept: {outcome.error.removesuffix('.')}.",
                remedy="Use a new id for a new event, or send what was sent first.",
                field="id",
            )
        return IdempotencyConflict(
            f"The idempotency key of message {outcome.message_id} was used before with another body.",
            remedy="Use a new key for a new event, or send what was sent first.",
            field="idempotency_key",
        )
    if outcome.status is Status.FAILED:
        return PublishFailed(
            f"Message {outcome.message_id} was not stored: {outcome.error.removesuffix('.')}.",
            remedy=outcome.remedy or "Publish it again.",
        )
    return PublishUnknown(
        f"Nobody knows whether message {outcome.message_id} was stored: {outcome.error.removesuffix('.')}.",
        remedy="Publish it again with the same idempotency key; it will not be stored twice.",
    )
