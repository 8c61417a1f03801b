"""Policies in words: whom they cover, and how much they allow."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from engine.quota import OnLoss, Period, Source, Whose
from hbus_console.ui.formats import num

#: The service of people on the pages of this console.
CONSOLE = "console"
#: Behind a number.
PER = {
    Period.NONE.value: "/s",
    Period.DAY.value: " a day",
    Period.MONTH.value: " a month",
    Period.AT_ONCE.value: " at once",
}
ON_LOSS = {
    OnLoss.FALLBACK.value: "each node lets its part of the fallback share through",
    OnLoss.OPEN.value: "everything passes",
    OnLoss.CLOSED.value: "nothing passes",
}
#: What a badge says of where a node's tokens come from, and its colour.
SOURCES = {
    Source.PERMIT: ("permit", "ok"),
    Source.FALLBACK: ("local fallback", "warn"),
    Source.OPEN: ("open", "warn"),
    Source.CLOSED: ("closed", "bad"),
    Source.NONE: ("nothing asked yet", ""),
    Source.LOCAL: ("not limited", ""),
}


def limit_words(settings: Mapping[str, Any]) -> str:
    """``2,000/s · burst 4,000``, ``10,000 a day``, or ``20 at once``."""
    return amount_words(settings["limit"], settings["burst"], settings["period"])


def amount_words(limit: float, burst: float, period: str) -> str:
    """Likewise, of an amount that is no policy's own."""
    said = f"{num(limit)}{PER[period]}"
    return said if period else f"{said} · burst {num(burst)}"


def covers_words(settings: Mapping[str, Any]) -> str:
    """``publish · hotels.* · plan partner``; ``*`` for what covers everything."""
    parts = [settings["service"], settings["resource"]] if settings["service"] != "*" else []
    if not parts and settings["resource"] != "*":
        parts = ["any service", settings["resource"]]
    if len(parts) == 2 and parts[1] == "*":
        parts.pop()
    if settings["tenant"] != "*":
        parts.append(f"tenant {settings['tenant']}")
    if settings["plan"]:
        parts.append(f"plan {settings['plan']}")
    return " · ".join(parts) or "*"


def holds_console(settings: Mapping[str, Any]) -> bool:
    """Whether people can be refused pages of this console by it."""
    return fnmatchcase(CONSOLE, settings["service"]) and not settings["shadow"]


def together(settings: Mapping[str, Any]) -> bool:
    """Whether all that it covers share one limit."""
    return bool(settings["whose"] == Whose.TOGETHER)
