"""Which schemas speak about a value, as one walks from parameters down to it; with a bound to the effort.

What may be meant counts: an alternative that the value does not take, and a pattern that its name does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hbus_console.schemas.references import WORDS, Place, References, parts

Schema = Mapping[str, Any]

#: Of a property of a schema: that its value is given and never shown.
_HIDDEN = "writeOnly"
#: Also as drafts before the newest say it.
_REFERRING = (*WORDS, "$recursiveRef")
#: Formats of values that are secrets, in small letters.
_SECRET_FORMATS = ("password",)
#: Of a text that holds JSON: nobody looks into it, so what its schema calls secret is hidden with all the rest.
_PACKED = "contentSchema"
#: Words of a schema under which there are schemas of the same value by the name of a member that it has.
_BY_NAME = ("dependentSchemas", "dependencies")
#: Under which there are others of the same value, and that of its names: what has secret names is hidden whole.
_ALSO = ("allOf", "anyOf", "oneOf", "if", "then", "else", "not", "propertyNames", *_BY_NAME)
#: Under which there are those of members without one of their own, and those of items.
_OTHER_MEMBERS = ("additionalProperties", "unevaluatedProperties")
_LISTS = ("prefixItems", "items", "contains", "additionalItems", "unevaluatedItems")


def calls_none_secret(schema: Schema, text: str) -> bool:
    """Whether a ``schema``, and the ``text`` of it as JSON, calls nothing secret: then nobody need walk through it."""
    small = text.lower()
    if any(f'"{word}"'.lower() in small for word in (_HIDDEN, _PACKED, *_SECRET_FORMATS)):
        return False
    return not any(f'"{word}"' in text for word in _REFERRING) or _leads_within(schema)


class TooMuch(Exception):
    """The walk would take more steps than it may."""


class Steps:
    """How many schemas may still be looked at, and values by them. Not thread-safe: one a walk, or a few after one
    another.
    """

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self, some: int = 1) -> None:
        """One step, or ``some``. Raises :class:`TooMuch` when there are not as many left."""
        self._left -= some
        if self._left < 0:
            raise TooMuch


class Spoken:
    """What speaks about one value: some parts of a schema, and all that they say about it elsewhere."""

    def __init__(self, places: Iterable[Place], references: References, steps: Steps) -> None:
        self._references = references
        self._steps = steps
        self._lost = False
        self._places = self._with_all_they_say(places)
        #: Whether one of them says that the value is given and never shown, or it cannot be told what one says.
        self.says_secret = self._lost or any(
            _is_meant(each.get(_HIDDEN)) or str(each.get("format")).lower() in _SECRET_FORMATS or _PACKED in each
            for each, _ in self._places
        )
        self._rest: Spoken | None = None
        self._of_items: Spoken | None = None
        self._named: dict[str, list[Place]] | None = None

    @classmethod
    def of(cls, schema: Any, root: Schema, steps: Steps) -> Spoken:
        """What speaks about the value of which ``schema``, a part of ``root``, is."""
        return cls(parts(root, schema), References(root), steps)

    @property
    def nodes(self) -> list[Schema]:
        """The parts of the schema that speak about it."""
        return [node for node, _ in self._places]

    @property
    def names(self) -> list[str]:
        """The members that have a schema of their own."""
        return list(self._by_name())

    def member(self, name: str) -> Spoken:
        """What speaks about the member ``name`` of the value."""
        if self._rest is None:
            self._rest = self._beneath(_unnamed(self._places))
        own = self._by_name().get(name)
        # Whatever has no schema of its own shares the one answer: members are many.
        return self._rest if own is None else self._beneath([*own, *self._rest._places])

    def items(self) -> Spoken:
        """What speaks about any item of the value."""
        if self._of_items is None:
            self._of_items = self._beneath(_items(self._places))
        return self._of_items

    def _beneath(self, places: Iterable[Place]) -> Spoken:
        return Spoken(places, self._references, self._steps)

    def _by_name(self) -> dict[str, list[Place]]:
        if self._named is None:
            self._named = {}
            for each, base in self._places:
                properties = each.get("properties")
                for name, of_it in properties.items() if isinstance(properties, Mapping) else ():
                    self._steps.take()
                    self._named.setdefault(name, []).extend(parts(base, of_it))
        return self._named

    def _with_all_they_say(self, places: Iterable[Place]) -> list[Place]:
        found: dict[tuple[int, int], Place] = {}
        left = list(places)
        while left:
            self._steps.take()
            each, base = place = left.pop()
            # In Python the same part may stand in several places.
            key = id(each), id(base)
            if key in found:
                continue
            found[key] = place
            for word in _REFERRING:
                if word in each:
                    left.extend(self._referred(base, each[word]))
            for word in _ALSO:
                if (under := each.get(word)) is None:
                    continue
                left.extend(parts(base, *(under if isinstance(under, list) else [under])))
                if word in _BY_NAME and isinstance(under, Mapping):
                    left.extend(parts(base, *under.values()))
        return list(found.values())

    def _referred(self, base: Schema, reference: Any) -> list[Place]:
        targets = _targets(self._references, base, reference)
        self._lost = self._lost or targets is None
        return targets or []


def _is_meant(said: Any) -> bool:
    # A text is no truth value by the standard, and whoever wrote "true" meant it.
    return said is True or (isinstance(said, str) and said.lower() == "true")


def _targets(references: References, base: Schema, reference: Any) -> list[Place] | None:
    """What it may lead to, also where not all readers agree on where a part with an identity of its own begins."""
    bases = [base] if base is references.root else [base, references.root]
    found = [references.targets(each, reference) for each in bases]
    known = [each for each in found if each is not None]
    return [place for each in known for place in each] if known else None


def _leads_within(schema: Schema) -> bool:
    """Whether every reference in it can be followed."""
    references = References(schema)
    left: list[tuple[Any, Schema]] = [(schema, schema)]
    while left:
        node, base = left.pop()
        if isinstance(node, list):
            left += [(each, base) for each in node]
        for each, inner in parts(base, node):
            left += [(value, inner) for value in each.values()]
            for word in _REFERRING:
                # A schema that is called so is that of a property of the name.
                named = word in each and not isinstance(each[word], Mapping | bool)
                if named and _targets(references, inner, each[word]) is None:
                    return False
    return True


def _unnamed(places: Iterable[Place]) -> Iterator[Place]:
    for each, base in places:
        patterns = each.get("patternProperties")
        if isinstance(patterns, Mapping):
            yield from parts(base, *patterns.values())
        yield from parts(base, *(each[word] for word in _OTHER_MEMBERS if word in each))


def _items(places: Iterable[Place]) -> Iterator[Place]:
    for each, base in places:
        for word in _LISTS:
            under = each.get(word)
            yield from parts(base, *(under if isinstance(under, list) else [under]))
