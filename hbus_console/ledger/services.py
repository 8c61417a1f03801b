"""The face of the ledger: finding messages, reading their lives, and looking into logs."""

from __future__ import annotations

from hbus_console.accounts.permissions import Actor
from hbus_console.ledger.browsing import Condition, Scan, peek, scan
from hbus_console.ledger.life import Life, life
from hbus_console.ledger.moments import Moment, moments
from hbus_console.ledger.reveal import Revealed, reveal
from hbus_console.ledger.search import Found, Query, reach, search

__all__ = [
    "Condition",
    "Found",
    "Life",
    "Moment",
    "Query",
    "Revealed",
    "Scan",
    "life",
    "moments",
    "peek",
    "reach",
    "reveal",
    "scan",
    "search",
    "timeline",
]


def timeline(actor: Actor, message_id: str) -> list[Moment]:
    """What happened to one message, in order; raises as :func:`life`."""
    return moments(life(actor, message_id))
