"""Parameters as the fields of a form, made of their JSON Schema; where that says more than a form can, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.core.errors import BadInput
from engine.core.strict_json import NotJson, read_typed
from hbus_console import checks
from hbus_console.jobs.showing import MASK, is_secret
from hbus_console.ui.control_characters import json_to_send
from hbus_console.ui.forms import Form, lines

#: Before the name of a parameter in a form.
PREFIX = "p."
#: A schema with more is written as JSON.
MOST_FIELDS = 20
_KINDS = {"string": "text", "integer": "number", "number": "number", "boolean": "checkbox"}
_TRUTHS = {True: "yes", False: "no"}
_FORMATS = {"date": "date", "date-time": "text", "password": "password"}


@dataclass(frozen=True)
class ParameterField:
    """One input. ``value`` is never a secret's."""

    name: str
    #: Of the input element, or ``select``.
    type: str
    value: str
    required: bool = False
    help: str = ""
    options: tuple[str, ...] = ()
    step: str = ""


def parameter_fields(schema: Mapping[str, Any] | None, values: Mapping[str, Any]) -> list[ParameterField] | None:
    """The inputs for ``schema`` filled with ``values``; ``None`` where a form cannot ask for what it says.

    Both as they may be seen: a mask in them is filled in by nobody.
    """
    properties = (schema or {}).get("properties")
    if not isinstance(properties, Mapping) or not 0 < len(properties) <= MOST_FIELDS:
        return None
    needed = (schema or {}).get("required", ())
    fields = [_field(name, each, values.get(name), name in needed, schema or {}) for name, each in properties.items()]
    known = [field for field in fields if field is not None and not _changes(field)]
    return known if len(known) == len(fields) and not set(values) - set(properties) else None


def read_parameters(form: Form, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a form says: of its fields, or of its JSON. Raises ``BadInput``; what does not fit is left to the schema."""
    if "parameters" in form:
        return read_json(lines(form, "parameters").strip() or "{}")
    properties = (schema or {}).get("properties", {})
    needed = (schema or {}).get("required", ())
    found: dict[str, Any] = {}
    for name, each in properties.items():
        typed = form.get(PREFIX + name)
        if _kind(each) == "boolean" and name in needed:
            found[name] = typed is not None
        elif typed not in (None, ""):
            found[name] = _value(str(typed), each)
    return found


def as_json(values: Mapping[str, Any]) -> str:
    """As the JSON field shows them."""
    return json_to_send(dict(values)) if values else "{}"


def read_json(text: str) -> dict[str, Any]:
    """Parameters that are typed as JSON. Raises ``BadInput`` for what is no object."""
    try:
        found = read_typed(text)
    except NotJson as error:
        raise BadInput(
            f"The parameters cannot be read as JSON: {error}.", remedy="Write an object: {…}.", field="parameters"
        ) from error
    if not isinstance(found, dict):
        raise BadInput("The parameters are no JSON object.", remedy="Write an object: {…}.", field="parameters")
    return found


def _field(name: str, schema: Any, value: Any, required: bool, root: Mapping[str, Any]) -> ParameterField | None:
    kind = _kind(schema)
    if kind not in _KINDS or (value is not None and not isinstance(value, str | int | float | bool)):
        return None
    value = schema.get("default") if value is None else value
    # Also what is called secret elsewhere alone, by another version.
    secret = value == MASK or is_secret(name, schema, root)
    options = tuple(str(each) for each in schema.get("enum", ()))
    shown = "" if value is None or secret else str(value)
    if secret or MASK in options:
        options = ()
    elif kind == "boolean" and required:
        shown = "on" if value else ""
    elif kind == "boolean":
        # A box that is not ticked would say no where nobody said anything.
        shown, options = "" if value is None else _TRUTHS[bool(value)], (_TRUTHS[True], _TRUTHS[False])
    input_type = "select" if options else _FORMATS.get(schema.get("format", ""), _KINDS[kind])
    told = schema.get("description", "")
    if secret:
        input_type, told = "password", f"{told} Left empty, it is the job's own.".strip()
    return ParameterField(name, input_type, shown, required, told, options, "any" if kind == "number" else "")


def _changes(field: ParameterField) -> bool:
    """Whether something else would come back of it than was filled in: an input has one line."""
    sent = (field.name, field.value, *field.options)
    return any(checks.holds_not_shown(each) or "\n" in each or "\r" in each for each in sent)


def _kind(schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return kind if isinstance(kind, str) else ""


def _value(typed: str, schema: Mapping[str, Any]) -> Any:
    kind = _kind(schema)
    if kind == "boolean":
        return {word: truth for truth, word in _TRUTHS.items()}.get(typed, typed)
    if kind not in ("integer", "number"):
        return typed
    try:
        return int(typed) if kind == "integer" else float(typed)
    except ValueError:
        # The schema says what is wrong with it.
        return typed
