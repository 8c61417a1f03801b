"""A schema as it may be seen: without the values that it names of what is secret.

Who writes ``default`` or ``const`` beside ``writeOnly`` has written the secret down in another place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.core.secret_names import hints, tells
from hbus_console.jobs.schema_walk import Schema, Spoken, Steps, TooMuch
from hbus_console.jobs.showing import MASK, MOST_STEPS, mask_places, shown_value, without_credentials
from hbus_console.schemas.json_schema import Place

#: Keywords whose value is one of what the schema speaks about, and those that list such.
_ONE, _SOME = ("const", "default", "example"), ("enum", "examples")
#: Under which there are schemas by names that somebody chose.
_BY_NAME = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"})
_COMPOUND = ("object", "array")


def shown_schema(schema: Schema, *schemas: Schema) -> dict[str, Any]:
    """``schema`` without values of what it, one of the other ``schemas``, or a telling name calls secret.

    What nothing leads to is masked, and all of it where it takes too long to tell: nobody knows what it is of.
    """
    text = json.dumps(schema)
    if not any(f'"{word}"' in text for word in (*_ONE, *_SOME)):
        return dict(schema)
    steps = Steps(MOST_STEPS)
    try:
        return dict(_copied(schema, _walked((schema, *schemas), steps), hidden=False))
    except TooMuch:
        return dict(_copied(schema, {}, hidden=False))


def may_be_quoted(*shown: Mapping[str, Any]) -> Callable[[Place, Any], bool]:
    """Whether a refusal may name a value that a schema allows at a place of parameters, which may be ``shown`` so."""
    secret = [place for each in shown for place in mask_places(each)]

    def may(at: Place, value: Any) -> bool:
        # Of what has parts nobody knows which of them are secret where they are not there to be looked at.
        if isinstance(value, Mapping | list) or any(tells(str(step)) or hints(str(step)) for step in at):
            return False
        return not any(at[: len(place)] == place for place in secret)

    return may


@dataclass(frozen=True)
class _Way:
    """One that leads to a node: how what it names is called there, and what speaks about that in each schema."""

    name: str
    hidden: bool
    spoken: list[Spoken]
    steps: Steps

    def shown(self, value: Any, parts: int) -> Any:
        """A ``value`` that the node names, of so many ``parts``, as it may be seen."""
        if self.hidden:
            return MASK
        for each in self.spoken:
            self.steps.take(parts)
            value = shown_value(self.name, value, each)
        return value


def _walked(schemas: tuple[Schema, ...], steps: Steps) -> dict[int, list[_Way]]:
    """The ways that lead to each node of the first of the ``schemas``, by the identity of the node."""
    seen: dict[int, list[_Way]] = {}
    met: set[tuple[str, bool, tuple[int, ...]]] = set()
    left = [("", False, [Spoken.of(each, each, steps) for each in schemas])]
    while left:
        name, hidden, spoken = left.pop()
        # Within what is hidden whole all is.
        hidden = hidden or tells(name) or any(each.says_secret for each in spoken)
        nodes = tuple(id(node) for each in spoken for node in each.nodes)
        steps.take(len(nodes))
        if (name, hidden, nodes) in met or not spoken[0].nodes:
            continue
        met.add((name, hidden, nodes))
        way = _Way(name, hidden, spoken, steps)
        for node in spoken[0].nodes:
            seen.setdefault(id(node), []).append(way)
        # What has no name of its own may be called anything.
        for inner in ("", *spoken[0].names):
            # What speaks about it may be known already, and then takes no step by itself.
            steps.take(len(spoken))
            left.append((inner, hidden, [each.member(inner) for each in spoken]))
        left.append((name, hidden, [each.items() for each in spoken]))
    return seen


def _copied(node: Any, seen: Mapping[int, list[_Way]], *, hidden: bool) -> Any:
    if isinstance(node, list):
        return [_copied(each, seen, hidden=hidden) for each in node]
    if not isinstance(node, Mapping):
        return node
    # What nothing leads to is seen in no way.
    ways = [] if hidden else seen.get(id(node), [])
    copy: dict[str, Any] = {}
    for word, value in node.items():
        if word in _ONE:
            copy[word] = _told(value, ways)
        elif word in _SOME:
            told = [_told(each, ways) for each in value] if isinstance(value, list) else [MASK]
            # Nor how many there are.
            copy[word] = [MASK] if MASK in told else told
        elif word in _BY_NAME and isinstance(value, Mapping):
            copy[word] = {
                name: _copied(each, seen, hidden=hidden or tells(name) or _is_hinted(name, each))
                for name, each in value.items()
            }
        else:
            copy[word] = _copied(value, seen, hidden=hidden)
    return copy


def _told(value: Any, ways: list[_Way]) -> Any:
    if not ways:
        return MASK
    parts = _parts(value)
    for way in ways:
        value = way.shown(value, parts)
    # Once: a text may be long, and its ways are many.
    return without_credentials(value)


def _parts(value: Any) -> int:
    """How many values there are in it, with itself; a long text counts as several, for it is looked through."""
    if isinstance(value, str):
        return 1 + len(value) // 1_000
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return 1 + sum(map(_parts, inner))


def _is_hinted(name: str, schema: Any) -> bool:
    return hints(name) and not (isinstance(schema, Mapping) and schema.get("type") in _COMPOUND)
