"""Showing what a topic masks: for a reason, and never without an audit entry."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction

from engine.core.errors import BadInput
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import record
from hbus_console.checks import reason as checked_reason
from hbus_console.messages.feature import PAYLOAD_REVEAL
from hbus_console.messages.message_trace import Life, envelope_of, life
from hbus_console.topics.payloads import Payload


@dataclass(frozen=True)
class Revealed:
    """The payload in clear, and the audit entry that says who saw it."""

    life: Life
    payload: Payload
    entry: AuditEntry


def reveal(
    actor: Actor, message_id: str, reason: str, fields: tuple[str, ...] = (), *, topic_name: str = "", source: str = ""
) -> Revealed:
    """Show the masked ``fields`` (all of them when none is named) of the message that :func:`life` would choose.

    The audit entry is committed before anything is returned. Raises ``NotThere``, ``Forbidden``, and ``BadInput``
    without a reason, when the payload is gone, when nothing is masked, or for a field that is not.
    """
    found = life(actor, message_id, topic_name, source)
    require(actor, PAYLOAD_REVEAL, found.topic_name)
    why = checked_reason(reason)
    if found.payload is None:
        raise BadInput("There is no payload to reveal.", remedy=found.gone, field="id")
    if not found.payload.hidden:
        raise BadInput("Nothing is masked in this message.", remedy="Read it as it is.", field="fields")
    if unknown := [name for name in fields if name not in found.payload.hidden]:
        raise BadInput(
            f"{unknown[0]!r} is not masked in this message.",
            remedy=f"Masked are {', '.join(found.payload.hidden)}.",
            field="fields",
        )
    chosen = fields or found.payload.hidden
    payload = envelope_of(found, actor, chosen)
    if payload is None:
        raise BadInput("There is no payload to reveal.", remedy=found.gone, field="id")
    with transaction.atomic():
        entry = record(
            actor,
            PAYLOAD_REVEAL.name,
            found.subject,
            reason=why,
            after={
                "fields": list(chosen),
                "classification": found.topic.classification if found.topic else "unknown",
                "source": found.source,
            },
        )
    return Revealed(found, payload, entry)
