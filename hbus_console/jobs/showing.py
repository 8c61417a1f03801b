"""What of a run's parameters may be seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.errors import BadInput

#: In place of a value that is not to be seen.
MASK = "•••"
#: Of a property of a schema: that its value is given and never shown.
_HIDDEN = "writeOnly"
#: Formats of values that are secrets.
_SECRET_FORMATS = ("password",)
#: Parts of names that say so where no schema does.
_SECRET_NAMES = ("password", "passwd", "secret", "token", "apikey", "api_key", "credential", "private_key")


def masked(parameters: Mapping[str, Any], schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """``parameters`` with what their schema, or a telling name, calls secret replaced, at whatever depth."""
    return {name: _shown(name, value, _property(schema, name)) for name, value in parameters.items()}


def unmasked(typed: Mapping[str, Any], known: Mapping[str, Any], schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """``typed`` with the secrets that it shows masked, or not at all, as they are ``known``: nobody types them anew.

    Raises ``BadInput`` where it shows one masked that is not known: the mask is nobody's secret.
    """
    hidden = masked(known, schema)
    left_out = {name: value for name, value in known.items() if hidden[name] == MASK and name not in typed}
    return {**{name: _restored(value, known.get(name)) for name, value in typed.items()}, **left_out}


def is_secret(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether a parameter is given and never shown."""
    return schema.get(_HIDDEN) is True or schema.get("format") in _SECRET_FORMATS or _tells(name)


def _shown(name: str, value: Any, schema: Mapping[str, Any]) -> Any:
    if is_secret(name, schema):
        return MASK
    if isinstance(value, Mapping):
        return masked(value, schema)
    if isinstance(value, list):
        items = schema.get("items")
        return [_shown(name, each, items if isinstance(items, Mapping) else {}) for each in value]
    return value


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


def _property(schema: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    properties = (schema or {}).get("properties")
    found = properties.get(name) if isinstance(properties, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _tells(name: str) -> bool:
    plain = name.lower().replace("-", "_")
    return any(part in plain for part in _SECRET_NAMES)
