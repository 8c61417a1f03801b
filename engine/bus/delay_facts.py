"""What the delay path tells of messages that could not be published when they were due."""

from __future__ import annotations

import logging

import msgspec

from engine.bus.delay_entries import Due, name_of
from engine.bus.errors import MalformedEnvelope
from engine.bus.facts import Fact
from engine.bus.message import decode
from engine.bus.subjects import topic_subject
from engine.core.errors import BadInput
from engine.core.ids import trace_id_of

_log = logging.getLogger(__name__)


def fact_of(
    kind: str, item: Due, at_ms: int, *, error: str = "", detail: str = "", attempt: int = 0, due_ms: int = 0
) -> list[Fact]:
    """The one fact about ``item``. None about what a stranger put into the store under a name that no topic can have:
    it is logged."""
    try:
        topic_subject(item.topic)
    except BadInput as bad:
        _log.error("what waits at %r is for no topic: %s %s", item.place[:200], bad.what, error or detail)
        return []
    try:
        message = decode(item.body)
    except MalformedEnvelope:
        _, source, message_id = name_of(item.place)
        named = Fact(kind, at_ms, item.topic, message_id=message_id, source=source)
    else:
        named = Fact(
            kind,
            at_ms,
            item.topic,
            message_id=message.id,
            key=message.partitionkey,
            correlation_id=message.correlationid,
            causation_id=message.causationid,
            trace_id=trace_id_of(message.traceparent),
            type=message.type,
            source=message.source,
            size=len(item.body),
        )
    return [msgspec.structs.replace(named, error=error, detail=detail, attempt=attempt, due_ms=due_ms)]
