"""The face of the ledger: finding messages, reading their lives, and looking into logs."""

from __future__ import annotations

from hbus_console.access.permissions import Actor
from hbus_console.messages.browsing import Condition, Scan, peek, scan
from hbus_console.messages.message_trace import Life, life
from hbus_console.messages.reach import reach
from hbus_console.messages.reveal import Revealed, reveal
from hbus_console.messages.search import FoundMessages, Query, search
from hbus_console.messages.timeline import Moment, moments

__all__ = [
    "Condition",
    "FoundMessages",
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


def timeline(actor: Actor, message_id: str, topic_name: str = "", source: str = "") -> list[Moment]:
    """What happened to one message, in order; chosen and raised as by :func:`life`."""
    return moments(life(actor, message_id, topic_name, source))
