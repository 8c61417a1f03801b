"""Hides the fields a topic masks before a payload leaves for any screen, export or answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from engine.core.errors import BadInput

#: One step of a path: a property, and ``[]`` for each list beneath it.
_PATH = re.compile(r"[A-Za-z0-9_$-]+(?:\[\])*(?:\.[A-Za-z0-9_$-]+(?:\[\])*)*")
#: How many fields one topic may mask.
MAX_FIELDS = 200


class Masked(str):
    """Stands where a hidden value stood. As JSON it is its sentence; pages show it as a chip."""

    __slots__ = ()


def masked(classification: str) -> Masked:
    """The stand-in for a value of a topic of that classification."""
    return Masked(f"masked · {classification}")


def check_fields(fields: Iterable[object]) -> list[str]:
    """The fields trimmed, sorted and without repeats; raises :class:`BadInput` for what is no path."""
    checked = set()
    for field in fields:
        path = field.strip() if isinstance(field, str) else ""
        if len(path) > 200 or not _PATH.fullmatch(path):
            raise BadInput(
                f"{field!r} is not a field path.",
                remedy="Write dotted names, with [] after a list: guest.email, guests[].name.",
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


def mask(payload: Any, masked_fields: Sequence[str], classification: str = "personal") -> Any:
    """A copy of ``payload`` with the values at ``masked_fields`` replaced by :class:`Masked`.

    A path into a list reaches every item, with or without ``[]``. What is absent stays absent; ``null`` is hidden
    too, because whether somebody has a value may itself be the secret.
    """
    stand_in = masked(classification)
    for field in masked_fields:
        payload = _hide(payload, field.replace("[]", "").split("."), stand_in)
    return payload


def is_masked(path: str, masked_fields: Iterable[str]) -> bool:
    """Whether the value at ``path`` (list positions left out or written ``[3]``) is hidden: itself, or what holds it,
    or a part of it. What is hidden must not be searched by either, or a search would reveal it."""
    steps = _steps(path)
    for field in masked_fields:
        hidden = _steps(field)
        shared = min(len(steps), len(hidden))
        if steps[:shared] == hidden[:shared]:
            return True
    return False


def _steps(path: str) -> list[str]:
    return re.sub(r"\[\d*\]", "", path).split(".")


def _hide(node: Any, steps: list[str], stand_in: Masked) -> Any:
    if isinstance(node, list):
        return [_hide(item, steps, stand_in) for item in node]
    if not steps:
        return stand_in
    if isinstance(node, dict) and steps[0] in node:
        return {**node, steps[0]: _inner(node[steps[0]], steps[1:], stand_in)}
    return node


def _inner(value: Any, steps: list[str], stand_in: Masked) -> Any:
    # A masked field is hidden whole, also when it holds a list: its length is part of what it says.
    return _hide(value, steps, stand_in) if steps else stand_in
