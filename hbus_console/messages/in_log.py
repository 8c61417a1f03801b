"""Whether a message that no evidence tells of lies in its topic's log, or waits to come there: an answer may be lost
behind the store, and who published it asks whether it is there. What cannot be ruled out is said with the answer."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from engine.bus.delay_entries import place_of
from engine.bus.delays import Whereabouts
from engine.bus.message import decode
from engine.core.clock import Clock, SystemClock, to_rfc3339
from engine.core.errors import HbusError
from engine.core.ids import instant_of
from hbus_console.access.permissions import Actor, require
from hbus_console.messages.browsing import peek
from hbus_console.messages.feature import PAYLOAD_READ
from hbus_console.outbox.models import OutboxMessage
from hbus_console.topics import lookup
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus

#: Entries of a log that are looked at, the newest first, and those of one look.
MOST, _AT_ONCE = 2_000, 500
#: Of an id that was made then, nothing before is looked at: a publisher's clock may be ahead by so much.
_EARLIER_MS = 60_000
_clock = SystemClock()


@dataclass(frozen=True)
class InLog:
    """What a look came to, as a sentence, and whether the message is stored, in the log or to come there later;
    ``None``: it cannot say."""

    stored: bool | None
    said: str


def look(who: Actor, topic: str, message_id: str, source: str = "", *, clock: Clock = _clock) -> InLog:
    """Look for it. ``source`` is this installation's own where none is named. Never raises: what cannot be looked at is
    said."""
    try:
        require(who, PAYLOAD_READ, topic)
        row = lookup.topic(topic)
        source = source or settings.HBUS_SOURCE
        return _waits(topic, message_id, source) or _lies(who, row, message_id, source, clock.now_ms())
    except HbusError as error:
        return InLog(None, f"The log of {topic} cannot tell whether it is stored: {error.what}")


def _waits(topic: str, message_id: str, source: str) -> InLog | None:
    """Where it waits to be published. Looked at before the log: what waits may come there meanwhile, and does not go
    back."""
    row = (
        OutboxMessage.objects.filter(topic=topic, message_id=message_id)
        .only("refused_at", "last_error", "body")
        .first()
    )
    if row is not None and decode(bytes(row.body)).source != source:
        # Another message: the outbox has one of an id at a time, whatever its source.
        row = None
    if row is not None and row.refused_at:
        return InLog(False, f"It is not stored: it lies in the outbox, and the bus refused it: {row.last_error}")
    if row is not None:
        return InLog(True, "It is kept: it lies in the outbox, from where it is published.")
    (refusal,) = bus.delays().refusals.at([place_of(topic, source, message_id)])
    if refusal is not None:
        return InLog(True, f"It is stored: it was due, is refused, and is tried again: {refusal.why}")
    if bus.delays().standings([(topic, source, message_id)]) == [Whereabouts.KEPT]:
        return InLog(True, "It is stored: it waits for its due time, or is being published at this moment.")
    return None


def _lies(who: Actor, topic: Topic, message_id: str, source: str, now_ms: int) -> InLog:
    """Where it lies in the log, in any store that holds messages of the topic."""
    start_ms = (instant_of(message_id) or 0) - _EARLIER_MS
    if start_ms > now_ms:
        # Made by a clock that is far ahead: it tells nothing of when the message was stored.
        start_ms = 0
    whole, others = True, set[str]()
    for carrier in topic.carriers:
        seen, cursor = 0, ""
        while seen < MOST:
            scan = peek(who, topic.name, carrier=carrier, cursor=cursor, start_ms=max(0, start_ms), size=_AT_ONCE)
            for entry in scan.entries:
                if entry.message is None or entry.message.id != message_id:
                    continue
                others.add(entry.message.source)
                if entry.message.source == source:
                    return InLog(True, f"It is stored: it lies in the log of {topic.name} at {entry.position}.")
            seen, cursor = seen + len(scan.entries), scan.next_cursor
            if not cursor:
                break
        whole = whole and not cursor
    # Which is another message, though the reader may mean it.
    another = f" One of that id from {', '.join(sorted(others))} is in the log." if others else ""
    if not whole:
        return InLog(None, f"It is not among the newest {MOST:,} messages in the log of {topic.name}.{another}")
    since = f"what was stored since {to_rfc3339(start_ms)}" if start_ms > 0 else "all that it holds"
    said = f"It is not in the log of {topic.name}, by {since}, nor does it wait for its due time as one of {source}."
    said += another
    if topic.moved_at and not topic.leaving and start_ms < topic.moved_at.timestamp() * 1000:
        return InLog(
            None, f"{said} What was stored before the topic moved, at {topic.moved_at:%Y-%m-%d %H:%M} UTC, may be gone."
        )
    return InLog(False, said)
