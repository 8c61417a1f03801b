"""Paths of fields in a JSON payload: one grammar and one walk, for what hides a value and for what asks for one.

Names with dots between them; one that has other characters than letters, digits, ``_``, ``$`` and ``-`` stands in
quotes, as filters have it: ``guest."first name"``. Behind a name ``[]`` for any item of a list, or ``[3]`` for one of
them. A name reaches into lists by itself, so ``guests.name``, ``guests[].name`` and, for its one item,
``guests[0].name`` find the same.
A step of digits alone is a name like any other, never a place in a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from engine.bus.filters.naming import PLAIN, QUOTED, unquoted, written

_NAME = rf"(?:{PLAIN}|{QUOTED})"
#: As a pattern, for who looks for a path in a longer text.
PATTERN = rf"{_NAME}(?:\[[0-9]*\])*(?:\.{_NAME}(?:\[[0-9]*\])*)*"
#: More digits than the length of any list has.
_MOST_DIGITS = 10
_QUOTED = re.compile(QUOTED)
_PART = re.compile(rf"(?P<quoted>{QUOTED})|\[(?P<place>[0-9]*)\]|(?P<dot>\.)|(?P<other>[^.\[\"']+|.)", re.DOTALL)


@dataclass(frozen=True)
class FieldPath:
    """One path. A step is a name, or the place of an item in a list."""

    steps: tuple[str | int, ...]

    @classmethod
    def parse(cls, text: str) -> FieldPath:
        """The path that ``text`` writes. It takes any text: who needs the grammar kept compares with PATTERN."""
        return cls(_steps(text))

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


def canonical(text: str) -> str:
    """A path that keeps the grammar, in its one way to write it; raises ``ValueError`` for an escape that JSON does not
    know, and for half of a surrogate pair, which no payload can hold."""
    said = _QUOTED.sub(lambda found: written(unquoted(found[0])), text)
    said.encode()
    return said


@lru_cache(maxsize=2_048)
def _steps(text: str) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    name, places = "", list[int]()
    for found in _PART.finditer(text):
        if found["dot"]:
            steps += [name, *places]
            name, places = "", []
        elif found["place"] is not None:
            places += [int(found["place"].lstrip("0")[:_MOST_DIGITS] or "0")] if found["place"] else []
        else:
            name += _plain(found[0]) if found["quoted"] else found[0]
    return (*steps, name, *places)


def _plain(said: str) -> str:
    try:
        return unquoted(said)
    except ValueError:
        return said


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
