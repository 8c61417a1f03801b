"""How much work a schema may make of a payload: bounded before it begins, for a validator cannot be interrupted.

Parts of a schema that apply to the same value multiply where they refer to one another: thirty-three definitions, each
naming the next one twice, are eight billion rules. What is counted is how often rules may be tried on one value and on
what lies beneath it, along the way that has the most of them: members of different names are different values, so of
those the dearest counts; all else adds up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.core.errors import BadInput
from engine.core.nesting import DEEPEST
from hbus_console.schemas.references import WORDS, Node, Place, References, parts

#: The most rules of a schema for one value that nothing nests in. No schema of real use comes near.
MOST_EXPANDED = 20_000
#: The most rules tried on one payload: a second, as a rule.
MOST_TRIED = 20_000_000
#: Where every fault is looked for, and each put into words.
MOST_TOLD = 200_000
#: Of a value on which more may fail it is not told which did.
MOST_WORDED = 5_000
#: References that lead to one another, all about the same value.
MOST_STEPS = 100
#: A payload has at most so many values: each takes two bytes of the largest message.
_MOST_VALUES = 524_288

_SAME_ONE = ("not", "if", "then", "else")
_SAME_MANY = ("allOf", "anyOf", "oneOf")
_BELOW_ONE = (
    "items", "contains", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "propertyNames",
)  # fmt: skip


class Effort:
    """What one schema costs. Immutable, and thread-safe."""

    def __init__(self, schema: Node | bool) -> None:
        """Raises :class:`BadInput` (field ``body``) for a schema that refers to itself without going into the value, or
        that is more than :data:`MOST_EXPANDED` rules for a flat one.
        """
        self._by_depth = [1] if isinstance(schema, bool) else _Counting(schema).by_depth()
        if self._by_depth[0] > MOST_EXPANDED:
            raise _refusal(f"The schema expands to more than {MOST_EXPANDED:,} rules for one value.")

    def excess(self, payload: object, most: int = MOST_TRIED) -> str:
        """Why ``payload`` is not held against the schema, as the end of a sentence; empty for one that is."""
        if self._on_one(DEEPEST) * _MOST_VALUES <= most:
            return ""
        values, depth = _extent(payload)
        if values * self._on_one(depth) <= most:
            return ""
        return (
            f"has {values:,} values and nests {depth} deep: with up to {self._on_one(depth):,} rules of the topic's "
            "schema tried on each it would take too long to check"
        )

    def is_wordy(self, payload: object) -> bool:
        """Whether so many rules may fail on one value that putting them into words would take long."""
        return self._on_one(DEEPEST) > MOST_WORDED and self._on_one(_extent(payload)[1]) > MOST_WORDED

    def _on_one(self, depth: int) -> int:
        return self._by_depth[min(depth, len(self._by_depth) - 1)]


class _Counting:
    """The count, depth by depth: what is tried on a value depends on what may lie one level below."""

    def __init__(self, schema: Node) -> None:
        self._root = schema
        self._references = References(schema)
        self._below: dict[int, int] = {}
        self._here: dict[int, int] = {}

    def by_depth(self) -> list[int]:
        """For payloads of no depth, of one level and so on; the last stands for all that nest deeper."""
        places = list(self._places())
        found: list[int] = []
        while len(found) <= DEEPEST:
            self._here = {}
            for place in places:
                self._count(place, 0)
            found.append(self._here[id(self._root)])
            if self._here == self._below or found[-1] > MOST_TRIED:
                break
            self._below = self._here
        return found

    def _count(self, place: Place, steps: int) -> int:
        node, _ = place
        if (known := self._here.get(id(node))) is not None:
            return known
        if steps > MOST_STEPS:
            raise _refusal(f"The schema refers to itself, or through more than {MOST_STEPS} parts, for one value.")
        same = sum(self._count(each, steps + 1) for each in self._same(place))
        named = max((self._lower(each) for each in _named(place)), default=0)
        below = sum(self._lower(each) for each in _below(place))
        self._here[id(node)] = count = min(1 + same + named + below, MOST_TRIED + 1)
        return count

    def _lower(self, place: Place) -> int:
        return self._below.get(id(place[0]), 0)

    def _places(self) -> Iterator[Place]:
        """Every part that can be reached, once."""
        waiting: list[Place] = [(self._root, self._root)]
        seen: set[int] = set()
        while waiting:
            place = waiting.pop()
            if id(place[0]) in seen:
                continue
            seen.add(id(place[0]))
            yield place
            for kind in (self._same, _named, _below):
                waiting += kind(place)

    def _same(self, place: Place) -> Iterator[Place]:
        """What applies to the same value."""
        node, base = place
        for name in _SAME_ONE:
            yield from parts(base, node.get(name))
        for name in _SAME_MANY:
            yield from parts(base, *_list(node.get(name)))
        yield from parts(base, *_dict(node.get("dependentSchemas")).values())
        for name in WORDS:
            # One that nobody can follow the validator refuses.
            yield from self._references.targets(base, node.get(name)) or ()


def _named(place: Place) -> Iterator[Place]:
    """What applies to members by their names, and to items by their places: each to another value."""
    node, base = place
    yield from parts(base, *_dict(node.get("properties")).values(), *_list(node.get("prefixItems")))


def _below(place: Place) -> Iterator[Place]:
    """What else applies to what the value holds."""
    node, base = place
    for name in _BELOW_ONE:
        yield from parts(base, node.get(name))
    yield from parts(base, *_dict(node.get("patternProperties")).values())


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _extent(payload: object) -> tuple[int, int]:
    """How many values there are, and how deep they nest."""
    values = depth = 0
    level: list[object] = [payload]
    while level:
        values += len(level)
        below: list[object] = []
        for each in level:
            if isinstance(each, dict):
                below += each.values()
            elif isinstance(each, list):
                below += each
        depth += bool(below)
        level = below
    return values, depth


def _refusal(what: str) -> BadInput:
    return BadInput(what, remedy="Name each part once for a value.", field="body")
