"""Whether a message that no evidence tells of lies in its topic's log: an answer may be lost behind the store, and who
published it asks whether it is there."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.errors import HbusError
from engine.core.ids import instant_of
from hbus_console.access.permissions import Actor
from hbus_console.messages.browsing import peek

#: Entries of a log that are looked at, the newest first, and those of one look.
MOST, _AT_ONCE = 2_000, 500
#: Of an id that was made then, nothing lies before: clocks differ by no more.
_EARLIER_MS = 60_000


@dataclass(frozen=True)
class InLog:
    """What a look into the log came to, as a sentence, and whether the message lies there; ``None``: it cannot say."""

    stored: bool | None
    said: str


def look(who: Actor, topic: str, message_id: str) -> InLog:
    """Look for it there. Never raises: what cannot be looked at is said."""
    made_ms = instant_of(message_id)
    start_ms = made_ms - _EARLIER_MS if made_ms is not None else None
    seen, cursor = 0, ""
    try:
        while seen < MOST:
            scan = peek(who, topic, cursor=cursor, start_ms=start_ms, size=_AT_ONCE)
            for entry in scan.entries:
                if entry.message is not None and entry.message.id == message_id:
                    return InLog(True, f"It is stored: it lies in the log of {topic} at {entry.position}.")
            seen, cursor = seen + len(scan.entries), scan.next_cursor
            if not cursor:
                since = "since its id was made" if start_ms is not None else "up to its beginning"
                return InLog(False, f"It is not stored: the log of {topic} was looked through {since}.")
    except HbusError as error:
        return InLog(None, f"The log of {topic} cannot tell whether it is stored: {error.what}")
    return InLog(None, f"It is not among the newest {seen:,} messages in the log of {topic}.")
