"""The ledger on its way out, as JSON: for the API and for the evidence a person exports."""

from __future__ import annotations

from typing import Any

import msgspec

from engine.bus.message import NO_DATA, Message
from engine.core.clock import to_rfc3339
from hbus_console.messages.browsing import Scan, Seen
from hbus_console.messages.message_trace import Life
from hbus_console.messages.models import LedgerMessage
from hbus_console.messages.search import Outcome
from hbus_console.messages.timeline import Moment, moments
from hbus_console.topics.payloads import Payload


def message_as_json(message: LedgerMessage, outcome: Outcome | None = None) -> dict[str, Any]:
    """One line of the ledger."""
    answer: dict[str, Any] = {
        "id": message.message_id,
        **{name: getattr(message, name) for name in ("topic", "type", "source", "key", "correlation_id")},
        **{name: getattr(message, name) for name in ("causation_id", "trace_id", "position")},
        "size": message.shown_size,
        "published_at": to_rfc3339(message.published_ms),
        "due_at": to_rfc3339(message.due_ms) if message.due_ms else None,
    }
    if outcome is not None:
        answer["outcome"] = {
            "settled": sorted(outcome.settled),
            "dead": sorted(outcome.dead),
            "expired": sorted(outcome.expired),
            "skipped": sorted(outcome.skipped),
            "nobody_told": sorted(outcome.passed),
            "lost": sorted(outcome.lost),
            "cancelled": sorted(outcome.cancelled),
            "refused_when_due": outcome.refused,
            "retrying": sorted(outcome.retrying),
            "failed_attempts": outcome.failed,
            "published_again": outcome.published_again,
            "delivered_again": outcome.delivered_again,
        }
    return answer


def moment_as_json(moment: Moment) -> dict[str, Any]:
    """One moment of a timeline, with its sentence in words."""
    return {
        "at": to_rfc3339(moment.at_ms),
        "kind": moment.kind,
        "subscription": moment.subscription,
        "attempt": moment.attempt,
        "error": moment.error,
        "stack": moment.stack,
        "message_id": moment.leads_to,
        "audit_entry": moment.audit_seq,
        "sentence": moment.sentence,
    }


def envelope_as_json(message: Message) -> dict[str, Any]:
    """Every attribute but the payload."""
    attributes = msgspec.to_builtins(msgspec.structs.replace(message, data=NO_DATA, data_base64=None))
    for name in ("data", "data_base64", "_extensions"):
        attributes.pop(name, None)
    return {"specversion": "1.0", **attributes, **message.extensions}


def payload_as_json(payload: Payload | None) -> dict[str, Any] | None:
    """The payload as it may be shown; ``masked`` names what is hidden."""
    if payload is None:
        return None
    return {"form": payload.form, "value": payload.value, "size": payload.size, "masked": list(payload.hidden)}


def life_as_json(life: Life) -> dict[str, Any]:
    """Everything known about one message."""
    return {
        "id": life.message_id,
        "topic": life.topic_name,
        "source": life.source,
        "other_topics": life.other_topics,
        "other_sources": life.other_sources,
        "ledger": message_as_json(life.entry) if life.entry else None,
        "envelope": envelope_as_json(life.envelope) if life.envelope else None,
        "payload": payload_as_json(life.payload),
        "gone": life.gone,
        "timeline": [moment_as_json(moment) for moment in moments(life)],
        "more_events": life.more_events,
        "dead_letters": [
            {"id": letter.pk, "subscription": letter.subscription, "state": letter.state, "cause": letter.cause}
            for letter in life.letters
        ],
        "cause": message_as_json(life.cause) if life.cause else None,
        "effects": [message_as_json(effect) for effect in life.effects],
    }


def seen_as_json(seen: Seen) -> dict[str, Any]:
    """One message as it lies in a topic's log."""
    return {
        "position": seen.position,
        "at": to_rfc3339(seen.at_ms),
        "envelope": envelope_as_json(seen.message) if seen.message else None,
        "payload": payload_as_json(seen.payload),
        "broken": seen.broken,
    }


def scan_as_json(scan: Scan) -> dict[str, Any]:
    """A page of a topic's log, or what a search of it found and where it stopped."""
    return {
        "results": [seen_as_json(seen) for seen in scan.entries],
        "scanned": scan.scanned,
        "matched": len(scan.entries),
        "stopped": scan.stopped,
        "back_to": to_rfc3339(scan.back_to_ms) if scan.back_to_ms is not None else None,
    }
