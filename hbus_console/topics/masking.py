"""Hides the fields a topic masks before a payload leaves for any screen, export or answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from engine.core.errors import BadInput
from hbus_console.topics.field_paths import PATTERN, FieldPath, canonical

_PATH = re.compile(PATTERN)
#: How many fields one topic may mask.
MAX_FIELDS = 200


class Masked(str):
    """Stands where a hidden value stood. As JSON it is its sentence; pages show it as a chip."""

    __slots__ = ()


def masked(classification: str) -> Masked:
    """The stand-in for a value of a topic of that classification."""
    return Masked(f"masked · {classification}")


def check_fields(fields: Iterable[object]) -> list[str]:
    """The fields trimmed, each in its one way to write it, sorted and without repeats.

    Raises :class:`BadInput` for what is no path.
    """
    checked = set()
    for field in fields:
        path = _canonical(field.strip()) if isinstance(field, str) else ""
        # Of a list all items are hidden: which one has which place is up to the publisher.
        if not path or len(path) > 200 or FieldPath.parse(path).has_places:
            raise BadInput(
                f"{field!r} is not a field path.",
                remedy="Write dotted names, with [] after a list: guest.email, guests[].name. "
                'A name with blanks or other odd characters stands in quotes: guest."first name".',
                field="masked_fields",
            )
        checked.add(path)
    if len(checked) > MAX_FIELDS:
        raise BadInput(
            f"{len(checked)} fields are too many; at most {MAX_FIELDS}.",
            remedy="Mask the object that holds them.",
            field="masked_fields",
        )
    return sorted(checked)


def _canonical(text: str) -> str:
    """The path in its one way to write it; empty for what is none."""
    try:
        return canonical(text) if _PATH.fullmatch(text) else ""
    except ValueError:
        return ""


def mask(payload: Any, masked_fields: Sequence[str], classification: str = "personal") -> Any:
    """A copy of ``payload`` with the values at ``masked_fields`` replaced by :class:`Masked`.

    A path into a list reaches every item, with or without ``[]``. What is absent stays absent; ``null`` is hidden
    too, because whether somebody has a value may itself be the secret.
    """
    stand_in = masked(classification)
    for field in masked_fields:
        payload = FieldPath.parse(field).replaced(payload, stand_in)
    return payload


def is_masked(path: str, masked_fields: Iterable[str]) -> bool:
    """Whether asking for the value at ``path`` could tell a hidden one: itself, what holds it, or a part of it.

    Places in lists make no difference: in one item a field is as hidden as in all of them.
    """
    asked = FieldPath.parse(path)
    return any(asked.overlaps(FieldPath.parse(field)) for field in masked_fields)


def hides(masked_fields: Iterable[str], path: str) -> bool:
    """Whether hiding ``masked_fields`` hides the whole value at ``path``: itself is named, or what holds it."""
    asked = FieldPath.parse(path)
    return any(asked.lies_in(FieldPath.parse(field)) for field in masked_fields)


def outermost(masked_fields: Sequence[str]) -> list[tuple[str, ...]]:
    """The fields by their names, without those inside of another: one stand-in stands for them too."""
    found: list[tuple[str, ...]] = []
    for names in sorted((FieldPath.parse(field).names for field in masked_fields), key=len):
        if not any(names[: len(outer)] == outer for outer in found):
            found.append(names)
    return found


def stand_in_places(
    given: Any, steps: Sequence[str], stand_in: str, at: tuple[str | int, ...] = ()
) -> Iterator[tuple[str | int, ...]]:
    """Where stand-ins stand at that path, in every item of a list."""
    if isinstance(given, list) and steps:
        for number, item in enumerate(given):
            yield from stand_in_places(item, steps, stand_in, (*at, number))
    elif not steps:
        if given == stand_in:
            yield at
    elif isinstance(given, dict) and steps[0] in given:
        yield from stand_in_places(given[steps[0]], steps[1:], stand_in, (*at, steps[0]))
