"""The OpenAPI document as a person reads it: operations by tag, each with its fields in lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from drf_spectacular.generators import SchemaGenerator

from hbus_console.ui.curl import CurlRequest

Node = Mapping[str, Any]
#: Fields inside fields are told down to here; what is deeper is in the document itself.
_DEPTH = 3
_METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True)
class ToldField:
    """One line: ``results[].id``, what it is, and what it means."""

    name: str
    kind: str
    required: bool = False
    text: str = ""


@dataclass(frozen=True)
class ToldAnswer:
    """``status`` is the code; an answer without fields has a text at most."""

    status: str
    text: str
    fields: list[ToldField]


@dataclass(frozen=True)
class ToldOperation:
    """What one method does at one address."""

    id: str
    tag: str
    method: str
    path: str
    summary: str
    text: str
    parameters: list[ToldField]
    body: list[ToldField]
    answers: list[ToldAnswer]
    #: The codes of refusals, which all have the form of one problem.
    refusals: list[str]

    @property
    def curl_spec(self) -> CurlRequest:
        """The call as a command, to be filled in."""
        return CurlRequest(self.method, self.path, {it.name: "…" for it in self.body if it.required} or None)


def read(version: str) -> dict[str, list[ToldOperation]]:
    """The operations of the API by their tags, in order of name."""
    document = SchemaGenerator(api_version=version).get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    found: dict[str, list[ToldOperation]] = {}
    for operation in operations(document):
        found.setdefault(operation.tag, []).append(operation)
    return dict(sorted(found.items()))


def operations(document: Node) -> Iterator[ToldOperation]:
    """All operations of an OpenAPI document, in its order."""
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if (told := methods.get(method)) is not None:
                yield _operation(document, path, method, told)


def _operation(document: Node, path: str, method: str, told: Node) -> ToldOperation:
    answers, refusals = [], []
    for status, stated in told.get("responses", {}).items():
        answer = _resolved(document, stated)
        content = answer.get("content", {})
        if "application/problem+json" in content:
            refusals.append(str(status))
        else:
            answers.append(ToldAnswer(str(status), answer.get("description", ""), _content(document, content)))
    return ToldOperation(
        id=told["operationId"],
        tag=(told.get("tags") or ["other"])[0],
        method=method.upper(),
        path=path,
        summary=told.get("summary", ""),
        text=told.get("description", ""),
        parameters=[_parameter(document, each) for each in told.get("parameters", [])],
        body=_content(document, told.get("requestBody", {}).get("content", {})),
        answers=answers,
        refusals=sorted(refusals),
    )


def _parameter(document: Node, told: Node) -> ToldField:
    schema = _resolved(document, told.get("schema", {}))
    where = "" if told["in"] == "query" else f"in the {told['in']}"
    kind = ", ".join(filter(None, [_kind(schema), where]))
    return ToldField(told["name"], kind, bool(told.get("required")), told.get("description", ""))


def _content(document: Node, content: Node) -> list[ToldField]:
    """The fields of the first form that it has; they differ in their spelling alone."""
    for form in content.values():
        return list(_fields(document, form.get("schema", {}), "", _DEPTH))
    return []


def _fields(document: Node, schema: Node, prefix: str, depth: int) -> Iterator[ToldField]:
    schema = _resolved(document, schema)
    if "array" in _types(schema):
        yield from _fields(document, schema.get("items", {}), f"{prefix}[]", depth)
        return
    for name, told in schema.get("properties", {}).items():
        inner = _resolved(document, told)
        place = f"{prefix}.{name}".removeprefix(".")
        yield ToldField(place, _kind(inner), name in schema.get("required", ()), told.get("description", ""))
        if depth > 1:
            yield from _fields(document, inner, place, depth - 1)


def _resolved(document: Node, schema: Node) -> Node:
    while "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    options = [each for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ())) if each.get("type") != "null"]
    # Something or nothing is that something.
    return {**schema, **_resolved(document, options[0])} if len(options) == 1 else schema


def _kind(schema: Node) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(str(value) for value in schema["enum"] if value is not None)
    if "const" in schema:
        return f"always {schema['const']}"
    words = {"array": "list", "number": "number", "null": "nothing"}
    kinds = [words.get(kind, kind) for kind in _types(schema)]
    if schema.get("format") == "date-time":
        kinds = ["time" if kind == "string" else kind for kind in kinds]
    return " or ".join(kinds) or "anything"


def _types(schema: Node) -> Iterable[str]:
    told = schema.get("type", ())
    return [told] if isinstance(told, str) else list(told)
