"""Whether a new schema may follow an old one: what would break, in plain sentences.

The question is always whether a *reader* accepts all that a *writer* may write. Backward: readers with the new schema
meet messages written under the old one. Forward: readers still on the old schema meet new messages. Full: both.

Properties a schema does not declare are taken as not written, unless it says otherwise with ``additionalProperties``
as a schema: read strictly, no optional property could ever be added to an open object.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from engine.core.numbers import whole
from hbus_console.schemas.modes import MODES

Schema = dict[str, Any] | bool

_TYPES = ("null", "boolean", "object", "array", "number", "string")
#: Keywords that only describe.
_SILENT = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema"}
    | {"$id", "$anchor", "$defs", "definitions", "contentMediaType", "contentEncoding", "contentSchema"}
)
#: (keyword, what the reader asks, whether a larger value is the stricter one)
_BOUNDS = (
    ("minimum", "must be at least", True),
    ("exclusiveMinimum", "must be more than", True),
    ("minLength", "must have at least this many characters:", True),
    ("minItems", "must have at least this many items:", True),
    ("minProperties", "must have at least this many properties:", True),
    ("maximum", "must be at most", False),
    ("exclusiveMaximum", "must be less than", False),
    ("maxLength", "must have at most this many characters:", False),
    ("maxItems", "must have at most this many items:", False),
    ("maxProperties", "must have at most this many properties:", False),
)
_COUNTS_FROM_ZERO = frozenset({"minLength", "minItems", "minProperties"})
_HANDLED = frozenset(
    {"type", "enum", "const", "required", "properties", "additionalProperties", "items", "prefixItems", "anyOf"}
    | {"pattern", "format", "uniqueItems", "multipleOf", "$ref"}
    | {keyword for keyword, _, _ in _BOUNDS}
)


@dataclass(frozen=True)
class Incompatibility:
    """One reason why a schema cannot follow another. ``path`` is dotted; empty for the payload itself."""

    path: str
    what: str
    #: False: the keyword is beyond this check, so nobody can promise that it is safe.
    judged: bool = True

    def __str__(self) -> str:
        return f"{self.path or 'The payload'} {self.what}"


def compatibility(old: Schema, new: Schema, mode: str) -> list[Incompatibility]:
    """What would break if ``new`` followed ``old`` under ``mode``; empty when it may follow.

    A change that cannot be judged counts as breaking. Raises ``ValueError`` for an unknown mode.
    """
    if mode not in MODES:
        raise ValueError(f"unknown compatibility mode {mode!r}")
    found: list[Incompatibility] = []
    if mode in ("backward", "full"):
        found += _Comparison(reader=new, writer=old, told="old messages").run()
    if mode in ("forward", "full"):
        found += _Comparison(reader=old, writer=new, told="new messages").run()
    return list(dict.fromkeys(found))


class _Comparison:
    """One walk over a reader's and a writer's schema side by side."""

    def __init__(self, *, reader: Schema, writer: Schema, told: str) -> None:
        self._reader_root = reader
        self._writer_root = writer
        self._told = told
        #: Pairs compared before, by identity; holding them keeps an identity from being used again.
        self._walked: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._found: list[Incompatibility] = []

    def run(self) -> list[Incompatibility]:
        if not self._proved(self._reader_root, self._writer_root):
            self._compare("", self._reader_root, self._writer_root)
        return self._found

    def _break(self, path: str, rule: str, because: str) -> None:
        self._found.append(Incompatibility(path, f"{rule}, but {self._told} {because}."))

    def _unjudged(self, path: str, keyword: str) -> None:
        what = f"changes in {keyword}, which cannot be judged; use compatibility none for one version if it is safe."
        self._found.append(Incompatibility(path, what, judged=False))

    def _proved(self, reader: Schema, writer: Schema) -> bool:
        """Whether containment can be proved outright; ``False`` says nothing."""
        try:
            read, written = (
                jsonschema_rs.canonicalize(schema, validate_formats=True, offline=True)
                for schema in (
                    _with_definitions(reader, self._reader_root),
                    _with_definitions(writer, self._writer_root),
                )
            )
            return read.covers(written) == jsonschema_rs.canonical.Containment.YES
        except (ValueError, jsonschema_rs.ReferencingError):
            return False

    def _compare(self, path: str, reader: Schema, writer: Schema) -> None:
        if reader is True or reader == {} or writer is False:
            return
        if reader is False:
            self._break(path, "must not be there", "may carry it")
            return
        read = _resolved(reader, self._reader_root)
        write = _resolved({} if writer is True else writer, self._writer_root)
        if read is None or write is None:
            self._unjudged(path, "$ref")
            return
        if (id(read), id(write)) in self._walked:
            return
        self._walked[id(read), id(write)] = (read, write)
        if "anyOf" in read or "anyOf" in write:
            self._alternatives(path, read, write)
        else:
            self._values(path, read, write)
            self._bounds(path, read, write)
            self._text(path, read, write)
            self._object(path, read, write)
            self._array(path, read, write)
            self._others(path, read, write)

    def _values(self, path: str, read: dict[str, Any], write: dict[str, Any]) -> None:
        options, written = _options(read), _options(write)
        if options is not None:
            lost = None if written is None else [value for value in written if value not in options]
            if lost is None:
                self._break(path, f"must be one of {_list(options)}", "may carry any value")
            elif lost:
                self._break(path, f"must be one of {_list(options)}", f"may carry {_list(lost)}")
            return
        if written is not None and self._proved({"type": read.get("type", list(_TYPES))}, {"enum": written}):
            return
        lost_types = [one for one in _types(write) if not _accepts(_types(read), one)]
        if lost_types and written is None:
            may = "be of any type" if "type" not in write else f"carry {' or '.join(lost_types)}"
            self._break(path, f"must be {' or '.join(_types(read))}", f"may {may}")
        elif lost_types:
            self._break(path, f"must be {' or '.join(_types(read))}", f"may carry {_list(written or [])}")

    def _bounds(self, path: str, read: dict[str, Any], write: dict[str, Any]) -> None:
        for keyword, rule, larger_is_stricter in _BOUNDS:
            limit, before = read.get(keyword), write.get(keyword)
            if limit is None or (keyword in _COUNTS_FROM_ZERO and limit == 0):
                continue
            if before is None:
                self._break(path, f"{rule} {limit}", "are not bound so")
            elif (limit > before) if larger_is_stricter else (limit < before):
                self._break(path, f"{rule} {limit}", f"are bound by {before}")

    def _text(self, path: str, read: dict[str, Any], write: dict[str, Any]) -> None:
        for keyword, rule in (("pattern", "must match"), ("format", "must be a")):
            wanted, before = read.get(keyword), write.get(keyword)
            if wanted is None or wanted == before:
                continue
            if before is None:
                self._break(path, f"{rule} {wanted}", "need not")
            elif keyword == "format":
                self._break(path, f"{rule} {wanted}", f"carry a {before}")
            else:
                self._unjudged(path, "pattern")
        if read.get("uniqueItems") and not write.get("uniqueItems"):
            self._break(path, "must not repeat an item", "may")
        step, before_step = read.get("multipleOf"), write.get("multipleOf")
        if step is not None and (before_step is None or before_step % step):
            self._break(path, f"must be a multiple of {step}", "need not be")

    def _object(self, path: str, read: dict[str, Any], write: dict[str, Any]) -> None:
        if not _may_be("object", read, write):
            return
        known, written = read.get("properties", {}), write.get("properties", {})
        for name in read.get("required", []):
            if name not in write.get("required", []):
                self._break(_join(path, name), "is required", "may lack it")
        for name, schema in written.items():
            if name in known:
                self._compare(_join(path, name), known[name], schema)
            elif schema is not False:
                self._dropped(_join(path, name), read, schema)
        self._undeclared(path, read, write)

    def _dropped(self, path: str, read: dict[str, Any], schema: Schema) -> None:
        """A property the writer declares and the reader does not."""
        rest = read.get("additionalProperties", True)
        if "patternProperties" in read:
            if rest is not True:
                self._unjudged(path, "patternProperties")
        elif rest is False:
            self._break(path, "is not a known property", "may carry it")
        else:
            self._compare(path, rest, schema)

    def _undeclared(self, path: str, read: dict[str, Any], write: dict[str, Any]) -> None:
        """What neither names: ``additionalProperties`` on both sides."""
        wanted, rest = read.get("additionalProperties", True), write.get("additionalProperties", True)
        if isinstance(rest, dict) and rest:
            for name, schema in read.get("properties", {}).items():
                if name not in write.get("properties", {}):
                    self._compare(_join(path, name), schema, rest)
        if wanted is False and rest is not False:
            self._break(path, "must carry no undeclared property", "may")
        elif wanted is not False:
            self._compare(_join(path, "*"), wanted, rest)

    def _array(self, path: str, read: dict[str, Any], write: dict[str, Any]) -> None:
        if not _may_be("array", read, write):
            return
        first, first_written = read.get("prefixItems", []), write.get("prefixItems", [])
        if len(first) != len(first_written):
            self._unjudged(path, "prefixItems")
            return
        for index, (one, other) in enumerate(zip(first, first_written, strict=True)):
            self._compare(f"{path}[{index}]", one, other)
        self._compare(f"{path}[]", read.get("items", True), write.get("items", True))

    def _alternatives(self, path: str, read: dict[str, Any], write: dict[str, Any]) -> None:
        """Each way of writing must fit one way of reading."""
        readers, writers = _branches(read), _branches(write)
        for index, branch in enumerate(writers):
            attempts = [self._silently(path, choice, branch) for choice in readers]
            if any(not attempt for attempt in attempts):
                continue
            if len(attempts) == 1:
                self._found.extend(attempts[0])
            elif all(problem.judged for attempt in attempts for problem in attempt):
                form = branch.get("type", f"form {index + 1}") if isinstance(branch, dict) else f"form {index + 1}"
                self._break(path, "must fit one of the reader's forms", f"may carry {form}, which fits none of them")
            else:
                self._unjudged(path, "anyOf")

    def _silently(self, path: str, reader: Schema, writer: Schema) -> list[Incompatibility]:
        inner = _Comparison(reader=self._reader_root, writer=self._writer_root, told=self._told)
        inner._walked = dict(self._walked)
        inner._compare(path, reader, writer)
        return inner._found

    def _others(self, path: str, read: dict[str, Any], write: dict[str, Any]) -> None:
        """Keywords without a rule of their own: unchanged, proved harmless together, or beyond judgement."""
        others = sorted(read.keys() - _HANDLED - _SILENT)
        changed = [keyword for keyword in others if not self._unchanged(keyword, read, write)]
        if not changed:
            return
        # They work on each other (if with then), and unevaluated… on all the rest.
        together = read if any(one.startswith("unevaluated") for one in others) else {one: read[one] for one in others}
        if not self._proved(together, write):
            self._unjudged(path, ", ".join(changed))

    def _unchanged(self, keyword: str, read: dict[str, Any], write: dict[str, Any]) -> bool:
        if keyword not in write or read[keyword] != write[keyword]:
            return False
        return '"$ref"' not in json.dumps(read[keyword]) or self._same_definitions()

    def _same_definitions(self) -> bool:
        return _definitions(self._reader_root) == _definitions(self._writer_root)


def _resolved(schema: dict[str, Any] | bool, root: Schema) -> dict[str, Any] | None:
    """``schema`` with local references followed; ``None`` when one leads nowhere, in a circle, or overlaps."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    seen: set[str] = set()
    while "$ref" in schema:
        target = schema["$ref"]
        beside = {name: value for name, value in schema.items() if name != "$ref" and name not in _SILENT}
        found = None if target in seen else _pointer(root, target)
        if not isinstance(found, dict) or beside.keys() & found.keys():
            return None
        seen.add(target)
        schema = {**found, **beside} if beside else found
    return schema


def _pointer(root: Schema, reference: str) -> Any:
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    node: Any = root
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and name in node:
            node = node[name]
        elif isinstance(node, list) and (index := whole(name)) is not None and index < len(node):
            node = node[index]
        else:
            return None
    return node


def _definitions(root: Schema) -> dict[str, Any]:
    return {} if isinstance(root, bool) else {name: root[name] for name in ("$defs", "definitions") if name in root}


def _with_definitions(schema: Schema, root: Schema) -> Schema:
    return schema if isinstance(schema, bool) or schema is root else {**_definitions(root), **schema}


def _types(schema: dict[str, Any]) -> list[str]:
    named = schema.get("type")
    if named is None:
        return list(_TYPES)
    return [named] if isinstance(named, str) else list(named)


def _accepts(types: list[str], one: str) -> bool:
    return one in types or (one == "integer" and "number" in types)


def _may_be(kind: str, read: dict[str, Any], write: dict[str, Any]) -> bool:
    return kind in _types(read) and kind in _types(write)


def _options(schema: dict[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    options: list[Any] | None = schema.get("enum")
    return options


def _branches(schema: dict[str, Any]) -> list[Schema]:
    if "anyOf" not in schema:
        return [schema]
    beside = {name: value for name, value in schema.items() if name != "anyOf" and name not in _SILENT}
    if not beside:
        return list(schema["anyOf"])
    return [{"allOf": [beside, branch]} for branch in schema["anyOf"]]


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _list(values: list[Any]) -> str:
    shown = ", ".join(json.dumps(value) for value in values[:6])
    return f"{shown} and {len(values) - 6} more" if len(values) > 6 else shown
