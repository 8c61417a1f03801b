"""Checks of single values, each refusal naming the field and the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable

from engine.core.clock import from_rfc3339
from engine.core.error_text import words_of
from engine.core.errors import BadInput, Outdated
from engine.core.strict_json import NotJson, check_storable
from engine.core.utf8 import DIRECTION_MARKS, OVERRULING
from hbus_console.faults import Unfit

#: What topics and groups may be called: legal as a Redis key, an NSQ topic or channel, and a part of a URL.
NAME = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
MAX_NAME = 64
#: The greatest number that is not a whole one: a rate, an amount.
MOST_NUMBER = 1_000_000_000_000
#: What no page shows as it is, as the inside of a class of characters: control characters but for tab and the ends of
#: lines, and what overrules the direction of what is written.
NOT_SHOWN = rf"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{OVERRULING}"
#: These, the return that a browser makes an end of line, and lone surrogates, which are no text. Who changed another
#: field of a form that shows one would save the picture of it. And the marks of direction: of two names that read the
#: same one may hold one. A page shows the payload of a message with them, for its language may need them.
_CONTROL = re.compile(rf"[{NOT_SHOWN}{DIRECTION_MARKS}\r\ud800-\udfff]")
_NOT_SHOWN = re.compile(f"[{NOT_SHOWN}{DIRECTION_MARKS}]")


def holds_not_shown(text: str) -> bool:
    """Whether a page shows ``text`` otherwise than it is, or not at all: nobody sees what a form sends back of it."""
    return _NOT_SHOWN.search(text) is not None


def name(value: object, field: str) -> str:
    """A topic's or a group's name."""
    if not isinstance(value, str) or not NAME.fullmatch(value) or len(value) > MAX_NAME:
        raise BadInput(
            f"{value!r} cannot be a name." if value else "A name is needed.",
            remedy=f"Use a-z and 0-9 in parts joined by . _ or -, at most {MAX_NAME} characters: booking.created.",
            field=field,
        )
    return value


def text(value: object, field: str, *, most: int, required: bool = False, lines: bool = False) -> str:
    """Text without control characters and marks of direction, trimmed."""
    if not isinstance(value, str):
        raise Unfit(field, "is not text.", remedy="Send a string.")
    value = value.strip()
    if _CONTROL.search(value) or (not lines and "\n" in value):
        raise Unfit(field, "holds control characters, or marks of direction.", remedy="Remove them.")
    if required and not value:
        raise Unfit(field, "is needed.", remedy="Fill it in.")
    if len(value) > most:
        raise Unfit(field, f"has {len(value)} characters.", remedy=f"At most {most}.")
    return value


def storable(value: object, field: str) -> None:
    """That ``value`` is JSON, and that every database keeps it."""
    try:
        check_storable(value)
    except NotJson as error:
        raise Unfit(
            field,
            f"cannot be kept: {words_of(error)}.",
            remedy="Use texts without NUL characters, numbers, true, false, null, lists, and objects of these.",
        ) from error


def reason(value: object, *, required: bool = True) -> str:
    """Why somebody does it; kept in the audit log."""
    if required and not (isinstance(value, str) and value.strip()):
        raise BadInput("This act needs a reason.", remedy="Say why; it is kept in the audit log.", field="reason")
    return text(value, "reason", most=300)


def instant(said: str, field: str) -> int:
    """An RFC 3339 instant, epoch milliseconds."""
    try:
        return from_rfc3339(said)
    except ValueError as error:
        raise BadInput(
            f"{said!r} is no RFC 3339 instant.",
            remedy="Write 2026-11-21T08:00:00Z, with the zone at its end.",
            field=field,
        ) from error


def revision(given: int | None, current: int, name: str) -> None:
    """That a change was made from the current revision of what is called ``name``; ``None``: from any."""
    if given is not None and given != current:
        raise Outdated(
            f"{name} was changed by somebody else meanwhile.", remedy="Look at it as it is now, and change that."
        )


def whole(value: object, field: str, *, least: int, most: int, unit: str = "") -> int:
    """A whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Unfit(
            field,
            f"is not a whole number from {least:,} to {most:,}{unit and ' ' + unit}.",
            remedy=f"{value!r} was given.",
        )
    return value


def number(value: object, field: str, *, least: float) -> float:
    """A number from ``least`` to :data:`MOST_NUMBER`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= MOST_NUMBER:
        point = " A fraction is written with a point." if isinstance(value, str) and "," in value else ""
        raise Unfit(field, f"is not a number from {least:g} to {MOST_NUMBER:,}.", remedy=f"{value!r} was given.{point}")
    return float(value)


def flag(value: object, field: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Unfit(field, "is neither true nor false.", remedy="Send true or false.")
    return value


def choice(value: object, field: str, options: Iterable[str]) -> str:
    """One of some words."""
    known = list(options)
    if value not in known:
        raise Unfit(field, f"cannot be {value!r}.", remedy=f"Choose one of {', '.join(known)}.")
    return str(value)


def typed(value: object, expected: str) -> None:
    """The name a person types to confirm a deletion."""
    if value != expected:
        raise BadInput(
            "The name typed is not the name of what would be deleted.", remedy=f"Type {expected}.", field="typed_name"
        )
