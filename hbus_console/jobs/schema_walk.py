"""Which schemas speak about a value, as one walks from parameters down to it; with a bound to the effort.

What may be meant counts: an alternative that the value does not take, and a pattern that its name does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

Schema = Mapping[str, Any]

#: Of a property of a schema: that its value is given and never shown.
_HIDDEN = "writeOnly"
#: Formats of values that are secrets.
_SECRET_FORMATS = ("password",)
#: Words of a schema under which there are schemas of the same value.
_ALSO = ("allOf", "anyOf", "oneOf", "if", "then", "else", "not", "dependentSchemas")


def calls_none_secret(schema: str) -> bool:
    """Whether a ``schema``, as a text of JSON, says of nothing that it is secret: then nobody need walk through it."""
    return not any(f'"{word}"' in schema for word in (_HIDDEN, *_SECRET_FORMATS))


class TooMuch(Exception):
    """The walk would take more steps than it may."""


class Steps:
    """How many schemas may still be looked at. Not thread-safe: one a walk, or a few after one another."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self) -> None:
        """One step. Raises :class:`TooMuch` when none is left."""
        self._left -= 1
        if self._left < 0:
            raise TooMuch


class Spoken:
    """What speaks about one value: some schemas, and all that they say about it elsewhere."""

    def __init__(self, schemas: Iterable[Any], root: Schema, steps: Steps) -> None:
        self._root = root
        self._steps = steps
        self.schemas = self._with_all_they_say(schemas)
        #: Whether one of them says that the value is given and never shown.
        self.says_secret = any(
            each.get(_HIDDEN) is True or each.get("format") in _SECRET_FORMATS for each in self.schemas
        )
        self._rest: Spoken | None = None
        self._of_items: Spoken | None = None
        self._named: dict[str, list[Any]] | None = None

    def member(self, name: str) -> Spoken:
        """What speaks about the member ``name`` of the value."""
        if self._rest is None:
            self._rest = self._of(_unnamed(self.schemas))
        own = self._by_name().get(name)
        # Whatever has no schema of its own shares the one answer: members are many.
        return self._rest if own is None else self._of([*own, *self._rest.schemas])

    def items(self) -> Spoken:
        """What speaks about any item of the value."""
        if self._of_items is None:
            self._of_items = self._of(_items(self.schemas))
        return self._of_items

    def _of(self, schemas: Iterable[Any]) -> Spoken:
        return Spoken(schemas, self._root, self._steps)

    def _by_name(self) -> dict[str, list[Any]]:
        if self._named is None:
            self._named = {}
            for each in self.schemas:
                properties = each.get("properties")
                for name, of_it in properties.items() if isinstance(properties, Mapping) else ():
                    self._steps.take()
                    self._named.setdefault(name, []).append(of_it)
        return self._named

    def _with_all_they_say(self, schemas: Iterable[Any]) -> list[Schema]:
        found: dict[int, Schema] = {}
        left = list(schemas)
        while left:
            self._steps.take()
            each = left.pop()
            if not isinstance(each, Mapping) or id(each) in found:
                continue
            found[id(each)] = each
            left.extend(_referred(each[word], self._root) for word in ("$ref", "$dynamicRef") if word in each)
            for word in _ALSO:
                if (under := each.get(word)) is None:
                    continue
                left.extend(under if isinstance(under, list) else [under])
                if word == "dependentSchemas" and isinstance(under, Mapping):
                    left.extend(under.values())
        return list(found.values())


def _referred(reference: Any, root: Schema) -> Any:
    """What a reference within the schema leads to; schemas refer to no other."""
    found: Any = root
    for word in str(reference).removeprefix("#").split("/")[1:]:
        part = unquote(word).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = found[int(part)] if part.isdecimal() and int(part) < len(found) else None
        else:
            found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _unnamed(schemas: Iterable[Schema]) -> Iterator[Any]:
    for each in schemas:
        patterns = each.get("patternProperties")
        if isinstance(patterns, Mapping):
            yield from patterns.values()
        yield from (each[word] for word in ("additionalProperties", "unevaluatedProperties") if word in each)


def _items(schemas: Iterable[Schema]) -> Iterator[Any]:
    for each in schemas:
        first = each.get("prefixItems")
        yield from first if isinstance(first, list) else ()
        items = each.get("items")
        yield from items if isinstance(items, list) else [items]
        yield from (each[word] for word in ("contains", "additionalItems", "unevaluatedItems") if word in each)
