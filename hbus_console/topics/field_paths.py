"""Paths of fields in a JSON payload: one grammar and one walk, for what hides a value and for what asks for one.

Names with dots between them; behind a name ``[]`` for any item of a list, or ``[3]`` for one of them. A name reaches
into lists by itself, so ``guests.name``, ``guests[].name`` and, for its one item, ``guests[0].name`` find the same.
A step of digits alone is a name like any other, never a place in a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_NAME = r"[A-Za-z0-9_$-]+"
#: As a pattern, for who looks for a path in a longer text.
PATTERN = rf"{_NAME}(?:\[[0-9]*\])*(?:\.{_NAME}(?:\[[0-9]*\])*)*"
#: More digits than the length of any list has.
_MOST_DIGITS = 10
_PLACE = re.compile(r"\[([0-9]*)\]")


@dataclass(frozen=True)
class FieldPath:
    """One path. A step is a name, or the place of an item in a list."""

    steps: tuple[str | int, ...]

    @classmethod
    def parse(cls, text: str) -> FieldPath:
        """The path that ``text`` writes. It takes any text: who needs the grammar kept compares with PATTERN."""
        steps: list[str | int] = []
        for part in text.split("."):
            places = (place for place in _PLACE.findall(part) if place)
            steps += [_PLACE.sub("", part), *(int(place.lstrip("0")[:_MOST_DIGITS] or "0") for place in places)]
        return cls(tuple(steps))

    @property
    def names(self) -> tuple[str, ...]:
        """The path without places in lists: whatever differs in these alone can reach the same value."""
        return tuple(step for step in self.steps if isinstance(step, str))

    @property
    def has_places(self) -> bool:
        """Whether it names single items of lists."""
        return len(self.names) != len(self.steps)

    def overlaps(self, other: FieldPath) -> bool:
        """Whether the one can reach what the other reaches, or what holds it, or a part of it."""
        shared = min(len(self.names), len(other.names))
        return self.names[:shared] == other.names[:shared]

    def lies_in(self, other: FieldPath) -> bool:
        """Whether all that it reaches is, or is part of, what the other reaches, places in lists left aside."""
        return self.names[: len(other.names)] == other.names

    def values(self, payload: Any) -> Iterator[Any]:
        """Every value that it reaches; of a list the items."""
        return _values(payload, self.steps)

    def blocked(self, payload: Any) -> bool:
        """Whether it meets text, a number or a truth value where a field of it should lie: what it reaches in other
        payloads may stand in there, and no path leads to it.
        """
        return _blocked(payload, self.names)

    def replaced(self, payload: Any, value: Any) -> Any:
        """A copy of ``payload`` with ``value`` at each place that the path without places in lists reaches.

        What is absent stays absent. A list that the path ends at is replaced whole.
        """
        return _replaced(payload, self.names, value)


def _values(node: Any, steps: tuple[str | int, ...]) -> Iterator[Any]:
    step = steps[0] if steps else None
    if isinstance(node, list):
        if isinstance(step, int):
            yield from _values(node[step], steps[1:]) if step < len(node) else ()
        else:
            for item in node:
                yield from _values(item, steps)
    elif step is None:
        yield node
    elif isinstance(node, dict) and step in node:
        yield from _values(node[step], steps[1:])


def _blocked(node: Any, names: tuple[str, ...]) -> bool:
    if not names or node is None:
        return False
    if isinstance(node, list):
        return any(_blocked(item, names) for item in node)
    if isinstance(node, dict):
        return names[0] in node and _blocked(node[names[0]], names[1:])
    return True


def _replaced(node: Any, names: tuple[str, ...], value: Any) -> Any:
    if not names:
        return value
    if isinstance(node, list):
        return [_replaced(item, names, value) for item in node]
    if isinstance(node, dict) and names[0] in node:
        return {**node, names[0]: _replaced(node[names[0]], names[1:], value)}
    return node
