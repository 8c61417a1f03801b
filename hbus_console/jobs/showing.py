"""What of a run's parameters may be seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from engine.core.errors import BadInput

#: In place of a value that is not to be seen.
MASK = "•••"
#: Of a property of a schema: that its value is given and never shown.
_HIDDEN = "writeOnly"
#: Formats of values that are secrets.
_SECRET_FORMATS = ("password",)
#: Parts of names that say so where no schema does, without what words are joined by.
_SECRET_NAMES = (
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "authorization",
)
#: Words of a schema under which there are schemas of the same value.
_ALSO = ("allOf", "anyOf", "oneOf", "if", "then", "else", "not", "dependentSchemas")

Schema = Mapping[str, Any]


def masked(parameters: Mapping[str, Any], schema: Schema | None) -> dict[str, Any]:
    """``parameters`` with what their schema, or a telling name, calls secret replaced, at whatever depth.

    What may be meant is masked: an alternative that the value does not take, and a pattern that its name does not fit.
    """
    root = schema or {}
    shown = _shown("", parameters, _applying([root], root), root)
    return dict.fromkeys(parameters, MASK) if shown == MASK else dict(shown)


def unmasked(typed: Mapping[str, Any], known: Mapping[str, Any], schema: Schema | None) -> dict[str, Any]:
    """``typed`` with the secrets that it shows masked, or not at all, as they are ``known``: nobody types them anew.

    Raises ``BadInput`` where it shows one masked that is not known: the mask is nobody's secret.
    """
    return restored(still_masked(typed, known, schema), known)


def still_masked(typed: Mapping[str, Any], known: Mapping[str, Any], schema: Schema | None) -> dict[str, Any]:
    """``typed`` with a mask for each secret that it leaves out: who types nothing leaves it as it is."""
    hidden = masked(known, schema)
    return {**typed, **{name: MASK for name in known if hidden[name] == MASK and name not in typed}}


def is_secret(name: str, schema: Schema, root: Schema | None = None) -> bool:
    """Whether a parameter is given and never shown. ``root``: of which ``schema`` is a part."""
    return _says_so(name, _applying([schema], root or {}))


def secrets_in(parameters: Mapping[str, Any], schema: Schema | None) -> list[str]:
    """The names of those that are secret, or hold one."""
    return [name for name, shown in masked(parameters, schema).items() if holds_mask(shown)]


def holds_mask(value: Any) -> bool:
    """Whether a mask stands in it, at whatever depth."""
    if isinstance(value, Mapping):
        return any(map(holds_mask, value.values()))
    return any(map(holds_mask, value)) if isinstance(value, list) else bool(value == MASK)


def restored(typed: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """``typed`` with each mask as the value that is ``known`` there; raises ``BadInput`` where none is."""
    return {name: _restored(value, known.get(name)) for name, value in typed.items()}


def _says_so(name: str, schemas: Iterable[Schema]) -> bool:
    return _tells(name) or any(each.get(_HIDDEN) is True or each.get("format") in _SECRET_FORMATS for each in schemas)


def _shown(name: str, value: Any, schemas: Sequence[Schema], root: Schema) -> Any:
    if _says_so(name, schemas):
        return MASK
    if isinstance(value, Mapping):
        return {key: _shown(key, each, _applying(_of_member(schemas, key), root), root) for key, each in value.items()}
    if isinstance(value, list):
        items = _applying(_of_items(schemas), root)
        return [_shown(name, each, items, root) for each in value]
    return value


def _applying(schemas: Iterable[Any], root: Schema) -> list[Schema]:
    """These, and all that they say about the same value elsewhere."""
    found: dict[int, Schema] = {}
    left = list(schemas)
    while left:
        each = left.pop()
        if not isinstance(each, Mapping) or id(each) in found:
            continue
        found[id(each)] = each
        left.extend(_referred(each[word], root) for word in ("$ref", "$dynamicRef") if word in each)
        for word in _ALSO:
            under = each.get(word)
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


def _of_member(schemas: Iterable[Schema], name: str) -> Iterator[Any]:
    for each in schemas:
        properties, patterns = each.get("properties"), each.get("patternProperties")
        if isinstance(properties, Mapping) and name in properties:
            yield properties[name]
        if isinstance(patterns, Mapping):
            yield from patterns.values()
        yield from (each.get(word) for word in ("additionalProperties", "unevaluatedProperties"))


def _of_items(schemas: Iterable[Schema]) -> Iterator[Any]:
    for each in schemas:
        first = each.get("prefixItems")
        yield from first if isinstance(first, list) else ()
        items = each.get("items")
        yield from items if isinstance(items, list) else [items]
        yield from (each.get(word) for word in ("contains", "additionalItems", "unevaluatedItems"))


def _restored(typed: Any, known: Any) -> Any:
    if typed == MASK:
        if known is None:
            raise BadInput(
                f"{MASK} stands for a secret that is not known here.", remedy="Type the secret.", field="parameters"
            )
        return known
    if isinstance(typed, Mapping):
        before = known if isinstance(known, Mapping) else {}
        return {name: _restored(value, before.get(name)) for name, value in typed.items()}
    if isinstance(typed, list):
        items = known if isinstance(known, list) and len(known) == len(typed) else [None] * len(typed)
        return [_restored(value, was) for value, was in zip(typed, items, strict=True)]
    return typed


def _tells(name: str) -> bool:
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    return any(part in plain for part in _SECRET_NAMES)
