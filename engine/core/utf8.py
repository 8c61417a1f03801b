"""Text as UTF-8 can say it: file names and the errors that quote them may hold what it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The marks that languages of both directions need, which are invisible themselves: a payload may hold them.
DIRECTION_MARKS = "\u061c\u200e\u200f"
#: What overrules the direction of what is written, and what once did, which is out of use.
OVERRULING = "\u202a-\u202e\u2066-\u206f"
#: What has whoever shows a text write on from the other side, as the inside of a character class: with it a line reads
#: as what it is not.
REORDERING = f"{DIRECTION_MARKS}{OVERRULING}"


def sayable(value: Any) -> Any:
    """``value`` with a question mark for each lone surrogate, inside of lists, tuples and mappings too."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list | tuple):
        return [sayable(each) for each in value]
    if isinstance(value, Mapping):
        return {sayable(name): sayable(each) for name, each in value.items()}
    return value
