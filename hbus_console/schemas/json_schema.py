"""JSON Schemas of payloads (draft 2020-12): checked when they are added, compiled once, asked at every publish.

Nothing here ever follows a reference out of the schema, and every pattern runs in linear time. What is said about a
payload never quotes its values: they may be masked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

import jsonschema_rs

from engine.core.error_text import words_of
from engine.core.errors import BadInput
from hbus_console import checks
from hbus_console.schemas.compatibility import Incompatibility, compatibility
from hbus_console.schemas.effort import MOST_TOLD, Effort

__all__ = ["DIALECT", "CompiledSchema", "Incompatibility", "Place", "check_schema", "compatibility"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: The largest schema, in bytes of JSON.
MAX_BYTES = 256 * 1024
#: How deep a schema may nest.
MAX_DEPTH = 64
#: Keywords whose values are data, not schemas.
_DATA = frozenset({"const", "enum", "default", "examples"})
_REFERENCES = ("$ref", "$dynamicRef")
#: Keywords that weigh all that lies within a value: without a part of it nobody can say whether they are kept.
_WEIGHING = frozenset({"const", "contains", "enum", "not", "unevaluatedItems", "unevaluatedProperties", "uniqueItems"})
#: Keywords whose rules apply or not by what else lies within the same value.
_CHOOSING = frozenset({"else", "then", "unevaluatedItems", "unevaluatedProperties"})
#: Keywords after which a name or a place stands in the way to a rule; and those that lead further into the value.
_NAMING = frozenset({"allOf", "anyOf", "dependentSchemas", "oneOf", "patternProperties", "prefixItems", "properties"})
_DESCENDING = frozenset(
    {
        *("additionalProperties", "items", "patternProperties", "prefixItems", "properties"),
        *("unevaluatedItems", "unevaluatedProperties"),
    }
)

#: Where a value lies in a payload: names, and places in lists.
Place = tuple[str | int, ...]
#: Whether a sentence about the value at a place may name this one, which its schema allows.
Quotes = Callable[[Place, Any], bool]


class CompiledSchema:
    """A compiled schema; the ``SchemaCheck`` of the engine. Immutable and thread-safe."""

    def __init__(self, body: Any, uri: str = "") -> None:
        """Raises :class:`BadInput` (field ``body``) when ``body`` is not a schema we accept."""
        self._uri = uri
        self._validator, self._effort = _compile(body)

    @property
    def uri(self) -> str:
        return self._uri

    def problem(self, payload: object, quotes: Quotes | None = None) -> tuple[str, str] | None:
        """``(field, sentence)`` of the first fault: ``("guests[0].name", "guests[0].name is required")``.

        ``quotes``: whether a sentence may name the value that would fit there; without it may always.
        """
        if excess := self._effort.excess(payload):
            return "", f"it {excess}"
        if self._validator.is_valid(payload):
            return None
        if self._effort.is_wordy(payload):
            return "", "it does not fit the schema, of which too many rules apply to say which one"
        # Only the first: of a list with a hundred thousand faults each would be put into words.
        try:
            self._validator.validate(payload)
        except jsonschema_rs.ValidationError as error:
            return _fault(error, quotes)
        return None

    def problem_beside(
        self, payload: object, unknown: Collection[Place], quotes: Quotes | None = None
    ) -> tuple[str, str] | None:
        """:meth:`problem` of a payload with stand-ins at the places ``unknown``, whose values nobody here may learn of.

        A rule about a stand-in, or one that cannot be judged without its value, is taken for kept.
        """
        if excess := self._effort.excess(payload, MOST_TOLD):
            return "", f"it {excess}"
        return next(
            (_fault(error, quotes) for error in self._validator.iter_errors(payload) if _tells(error, unknown)), None
        )

    def tells(self, payload: object) -> bool:
        """Whether :meth:`problem_beside` looks at each fault of it, which of some takes too long."""
        return not self._effort.excess(payload, MOST_TOLD)

    def problems(self, payload: object, limit: int = 20) -> list[tuple[str, str]]:
        """Every fault as in :meth:`problem`, up to ``limit`` of them, for an editor that marks them all; of a payload
        in which looking for all would take long the first alone.
        """
        if self._effort.excess(payload, MOST_TOLD):
            return [found] if (found := self.problem(payload)) else []
        return [_fault(error) for error, _ in zip(self._validator.iter_errors(payload), range(limit), strict=False)]


def check_schema(body: Any) -> None:
    """Refuse what is no schema, too large, too deep, or reaches outside itself; raises :class:`BadInput`."""
    _compile(body)
    checks.storable(body, "body")


def _compile(body: Any) -> tuple[jsonschema_rs.Draft202012Validator, Effort]:
    if not isinstance(body, (dict, bool)):
        raise _refusal("A schema is a JSON object.", 'For example {"type": "object", "properties": {}}.')
    size = len(json.dumps(body, ensure_ascii=False).encode())
    if size > MAX_BYTES:
        raise _refusal(f"The schema has {size} bytes; at most {MAX_BYTES} are allowed.", "Split or shorten it.")
    _walk(body, depth=0)
    effort = Effort(body)
    try:
        validator = jsonschema_rs.Draft202012Validator(
            body, validate_formats=True, offline=True, pattern_options=jsonschema_rs.RegexOptions()
        )
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise _refusal(_schema_fault(error), _remedy(error)) from error
    return validator, effort


def _walk(node: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _refusal(f"The schema nests deeper than {MAX_DEPTH} levels.", "Move inner parts to $defs.")
    if isinstance(node, list):
        for inner in node:
            _walk(inner, depth + 1)
    if not isinstance(node, dict):
        return
    dialect = node.get("$schema")
    if isinstance(dialect, str) and dialect.rstrip("#") != DIALECT:
        raise _refusal(f"The schema is written in {dialect}.", f"Use {DIALECT}, or leave $schema out.")
    for keyword in _REFERENCES:
        target = node.get(keyword)
        if isinstance(target, str) and not target.startswith("#"):
            raise _refusal(
                f"The schema refers to {target}, which lies outside it.",
                "Copy the part into $defs and refer to #/$defs/….",
            )
    for name, inner in node.items():
        if name not in _DATA:
            _walk(inner, depth + 1)


def _refusal(what: str, remedy: str) -> BadInput:
    return BadInput(what, remedy=remedy, field="body")


def _schema_fault(error: Exception) -> str:
    if isinstance(error, jsonschema_rs.ValidationError):
        where = "/".join(str(step) for step in error.instance_path)
        return f"This is not a valid schema{' at ' + where if where else ''}: {error.message.splitlines()[0]}."
    return f"This is not a valid schema: {words_of(error).splitlines()[0]}."


def _remedy(error: Exception) -> str:
    if isinstance(error, jsonschema_rs.ValidationError) and error.kind.as_dict().get("format") == "regex":
        # The draft allows these; an engine that never goes back has none, and takes no longer than the text is long.
        return "Mend the pattern; lookaround, as (?=…) and (?<!…), and back references, as \\1, are not supported here."
    return "Use JSON Schema draft 2020-12."


def _fault(error: jsonschema_rs.ValidationError, quotes: Quotes | None = None) -> tuple[str, str]:
    field, at = _field(error), tuple(error.instance_path)
    named = _named(error)
    sentence = (
        _sentence(error)
        if quotes is None or all(quotes(at, each) for each in named)
        else "is not what its schema allows"
    )
    return field, f"{field or 'it'} {sentence}"


def _named(error: jsonschema_rs.ValidationError) -> list[Any]:
    """The values that its sentence would name."""
    detail = error.kind.as_dict()
    if error.kind.name == "enum":
        return list(detail["options"])
    return [detail["expected_value"]] if error.kind.name == "const" else []


def _tells(error: jsonschema_rs.ValidationError, unknown: Collection[Place]) -> bool:
    """Whether it would be a fault whatever stood at the places ``unknown``."""
    at = tuple(error.instance_path)
    if any(place == at[: len(place)] for place in unknown) or _is_chosen(error, at, unknown):
        return False
    if not any(at == place[: len(at)] for place in unknown):
        return True
    if branches := error.kind.as_dict().get("context"):
        return all(any(_tells(inner, unknown) for inner in branch) for branch in branches)
    return error.kind.name not in _WEIGHING


def _is_chosen(error: jsonschema_rs.ValidationError, at: Place, unknown: Collection[Place]) -> bool:
    """Whether its rule may apply by what stands at the places ``unknown``, wherever it is broken."""
    depth, way = 0, iter(error.evaluation_path)
    for step in way:
        if step in _CHOOSING and any(place[:depth] == at[:depth] for place in unknown):
            return True
        depth += step in _DESCENDING
        if step in _NAMING:
            next(way, None)
    return False


def _field(error: jsonschema_rs.ValidationError) -> str:
    steps: list[str | int] = list(error.instance_path)
    detail = error.kind.as_dict()
    if error.kind.name == "required":
        steps.append(str(detail["property"]))
    elif error.kind.name in ("additionalProperties", "unevaluatedProperties"):
        steps.append(str(detail["unexpected"][0]))
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


#: One sentence for each keyword, from the schema's side only.
_SENTENCES = {
    "required": "is required",
    "additionalProperties": "is not a property its schema knows",
    "unevaluatedProperties": "is not a property its schema knows",
    "uniqueItems": "holds the same item twice",
    "anyOf": "fits none of the allowed forms",
    "oneOf": "fits none of the allowed forms, or more than one",
    "contains": "lacks an item that must be there",
    "not": "has a form that is ruled out",
    "falseSchema": "must not be there",
    "unevaluatedItems": "has more items than allowed",
    "propertyNames": "has a property whose name is not allowed",
}
_LIMITS = {
    "minimum": "must be at least {limit}",
    "maximum": "must be at most {limit}",
    "exclusiveMinimum": "must be more than {limit}",
    "exclusiveMaximum": "must be less than {limit}",
    "minLength": "must have at least {limit} characters",
    "maxLength": "must have at most {limit} characters",
    "minItems": "must have at least {limit} items",
    "maxItems": "must have at most {limit} items",
    "minProperties": "must have at least {limit} properties",
    "maxProperties": "must have at most {limit} properties",
}


#: The same for keywords whose sentence needs what the schema says.
_TOLD: dict[str, Callable[[dict[str, Any]], str]] = {
    "type": lambda detail: f"must be of type {' or '.join(detail['types'])}",
    "enum": lambda detail: f"must be one of {_short(detail['options'])}",
    "const": lambda detail: f"must be {_short(detail['expected_value'])}",
    "format": lambda detail: f"is not a {detail['format']}",
    "pattern": lambda detail: f"does not match {detail['pattern']}",
    "multipleOf": lambda detail: f"must be a multiple of {detail['multiple_of']}",
}


def _sentence(error: jsonschema_rs.ValidationError) -> str:
    name, detail = error.kind.name, error.kind.as_dict()
    if name in _SENTENCES:
        return _SENTENCES[name]
    if name in _LIMITS:
        return _LIMITS[name].format(**detail)
    if name in _TOLD:
        return _TOLD[name](detail)
    return f"does not satisfy the schema's {'/'.join(str(step) for step in error.schema_path)}"


def _short(value: Any) -> str:
    text = ", ".join(json.dumps(one) for one in value) if isinstance(value, list) else json.dumps(value)
    return text if len(text) <= 120 else text[:119] + "…"
