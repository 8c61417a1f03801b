"""Why a store has a message no more that the ledger tells of."""

from __future__ import annotations

from engine.bus.optional import TellsStanding
from engine.bus.transport import Admin
from hbus_console.messages.checking import CLOSE_MS
from hbus_console.messages.models import LedgerMessage


def why_gone(admin: Admin, entry: LedgerMessage | None) -> str:
    """As the beginning of a sentence. The life of the topic in which it was published may be over: then it was not
    retention. Raises ``Unavailable``."""
    began_ms = admin.began_ms(entry.topic) if entry is not None and isinstance(admin, TellsStanding) else 0
    if entry is not None and began_ms > entry.published_ms + CLOSE_MS:
        return "Its store was emptied since, and the payload is gone"
    return "Retention has removed the payload"
