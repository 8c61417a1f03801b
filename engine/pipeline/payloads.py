"""Payloads as columns, by the JSON Schema of their topic: the same for a topic, its archive, and a stream.

Imported by drivers alone; it is Spark that takes the JSON apart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.core.errors import BadInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: How deep parts of a schema may lie in each other, and how many are looked at, each reference being followed.
MOST_DEPTH, MOST_LOOKED = 64, 10_000
#: What is of no one type is a text: the JSON of the value as it was sent.
_TEXT = "STRING"
_SINGLE = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}
_SCALARS = {"string", *_SINGLE}
_FORMATS = {"date-time": "TIMESTAMP", "date": "DATE"}
_EITHER = ("anyOf", "oneOf")


def with_payload(frame: DataFrame, schema: Mapping[str, Any] | str, column: str = "payload") -> DataFrame:
    """``frame`` with the column ``column``, made of ``data`` by a JSON Schema, as an object or as its text.

    ``frame`` is what :mod:`engine.pipeline.source.datasource` or :func:`~engine.pipeline.lake.frames.archived` gives.
    A member that the payload has not is null, and so is one that is not of its type; what the schema does not name is
    left out. See :func:`ddl_of_schema`, whose errors it raises.
    """
    # pyspark is needed by whoever has a frame.
    from pyspark.sql.functions import col, from_json

    return frame.withColumn(column, from_json(col("data"), ddl_of_schema(schema)))


def ddl_of_schema(schema: Mapping[str, Any] | str) -> str:
    """The type of Spark that takes what a JSON Schema allows.

    Objects with named members become ``STRUCT``, others ``MAP``; lists ``ARRAY``; ``date-time`` and ``date`` become
    ``TIMESTAMP`` and ``DATE``. What may be of several types, or contains itself, is a text with its JSON. References
    lead to within the schema, ``#/…``.

    Raises :class:`BadInput` naming the field for what is no schema of an object or a list, and one that is too deep or
    too large.
    """
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError) as error:
            raise _bad("It is no JSON.", "Give the schema as it stands at the topic.") from error
    if not isinstance(schema, Mapping):
        raise _bad("It is no object.", "Give the schema as it stands at the topic.")
    found = _Walk(schema).type_of(schema, ())
    if not found.startswith(("STRUCT", "MAP", "ARRAY")):
        raise _bad("It describes neither an object nor a list.", "Read the column data, which is the value as JSON.")
    return found


class _Walk:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._looked = 0

    def type_of(self, schema: object, within: tuple[int, ...]) -> str:
        """``within``: what lies around it, so that what contains itself is noticed."""
        if id(schema) in within:
            return _TEXT
        parts = self._parts(schema, len(within))
        within = (*within, id(schema))
        members: dict[str, object] = {}
        for part in parts:
            members |= {str(name): each for name, each in _mapping(part, "properties").items()}
        kinds = {kind for part in parts for kind in _kinds(part)}
        if members and kinds <= {"object"}:
            named = (f"{_quoted(name)}: {self.type_of(each, within)}" for name, each in members.items())
            return f"STRUCT<{', '.join(named)}>"
        if len(kinds) != 1:
            return _either(kinds)
        return self._of_kind(kinds.pop(), parts, within)

    def _of_kind(self, kind: str, parts: Sequence[Mapping[str, Any]], within: tuple[int, ...]) -> str:
        if kind == "object":
            return f"MAP<STRING, {self._inner('additionalProperties', parts, within)}>"
        if kind == "array":
            return f"ARRAY<{self._inner('items', parts, within)}>"
        if kind == "string":
            said = [part["format"] for part in parts if isinstance(part.get("format"), str)]
            return _FORMATS.get(said[0], _TEXT) if said else _TEXT
        return _SINGLE.get(kind, _TEXT)

    def _inner(self, word: str, parts: Sequence[Mapping[str, Any]], within: tuple[int, ...]) -> str:
        said = [part[word] for part in parts if isinstance(part.get(word), Mapping)]
        # A list whose places differ is one of texts.
        mixed = word == "items" and any("prefixItems" in part for part in parts)
        return self.type_of(said[0], within) if len(said) == 1 and not mixed else _TEXT

    def _parts(self, schema: object, depth: int) -> list[Mapping[str, Any]]:
        """The schemas that all hold of one value: with what it refers to, and what alternatives agree upon."""
        self._looked += 1
        if depth > MOST_DEPTH or self._looked > MOST_LOOKED:
            raise _bad(
                f"It has more than {MOST_LOOKED:,} parts, or more than {MOST_DEPTH} in each other.",
                "Give the part of it that is wanted.",
            )
        if not isinstance(schema, Mapping):
            return []
        found: list[Mapping[str, Any]] = [schema]
        if isinstance(reference := schema.get("$ref"), str):
            found += self._parts(self._target(reference), depth + 1)
        for each in _list(schema, "allOf"):
            found += self._parts(each, depth + 1)
        for word in _EITHER:
            alternatives = [self._parts(each, depth + 1) for each in _list(schema, word) if not _is_null(each)]
            if len(alternatives) == 1:
                found += alternatives[0]
                continue
            kinds = {kind for parts in alternatives for part in parts for kind in _kinds(part)}
            # Objects that differ have no columns in common, nor have lists.
            found.append({"type": sorted(kinds) if kinds <= _SCALARS else ["array", "object"]})
        return found

    def _target(self, reference: str) -> object:
        found: object = self._root
        if not reference.startswith("#"):
            raise _bad(f"{reference} leads out of it.", "Give a schema that needs no other.")
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or name not in found:
                raise _bad(f"{reference} leads nowhere.", "Give the whole schema.")
            found = found[name]
        return found


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    """The types it names or implies, but null."""
    said = schema.get("type")
    kinds = {said} if isinstance(said, str) else {each for each in said or () if isinstance(each, str)}
    if not kinds and isinstance(values := schema.get("enum", [schema["const"]] if "const" in schema else None), list):
        kinds = {_kind_of(value) for value in values}
    if not kinds and "properties" in schema:
        kinds = {"object"}
    return kinds - {"null"}


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    named = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return named.get(type(value), "null")


def _either(kinds: set[str]) -> str:
    return "DOUBLE" if kinds == {"integer", "number"} else _TEXT


def _is_null(schema: object) -> bool:
    return isinstance(schema, Mapping) and (schema.get("type") == "null" or schema.get("enum") == [None])


def _mapping(schema: Mapping[str, Any], word: str) -> Mapping[str, Any]:
    said = schema.get(word)
    return said if isinstance(said, Mapping) else {}


def _list(schema: Mapping[str, Any], word: str) -> Sequence[Any]:
    said = schema.get(word)
    return said if isinstance(said, list) else []


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _bad(what: str, remedy: str) -> BadInput:
    return BadInput(f"The schema is of no use as columns. {what}", remedy=remedy, field="schema")
