"""Short ways to say what an endpoint takes and gives, to read the one, and to make the other."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from engine.core.errors import BadInput
from engine.core.prepared import prepared
from hbus_console.access.problem_details import CONTENT_TYPE
from hbus_console.api.problems import PROBLEM
from hbus_console.api.query import PAGE_SIZE

Body = TypeVar("Body", bound=msgspec.Struct)
_AT = re.compile(r" - at `\$\.?([^`]*)`$")

REFUSED = {(403, CONTENT_TYPE): PROBLEM, (404, CONTENT_TYPE): PROBLEM, (422, CONTENT_TYPE): PROBLEM}
_CONFLICT = {(409, CONTENT_TYPE): PROBLEM}
PAGES = [
    OpenApiParameter("cursor", description="From `next` or `previous`."),
    OpenApiParameter("limit", PAGE_SIZE, description="50 when left out."),
]
#: Of lists that only go on.
FORWARD_PAGES = [
    OpenApiParameter("cursor", description="From `next`."),
    OpenApiParameter("limit", PAGE_SIZE, description="50 when left out."),
]


def read(request: Request, kind: type[Body]) -> Body:
    """The request's JSON body as ``kind``; ``BadInput`` names the field that is missing, unknown or of a wrong type."""
    try:
        return msgspec.convert(request.data, type=prepared(kind))
    except msgspec.ValidationError as error:
        text = str(error)
        place = _AT.search(text)
        named = re.search(r"field `([^`]+)`", text)
        path = place[1] if place else ""
        field = ".".join(part for part in (path, named[1] if named else "") if part)
        raise BadInput(
            f"{text.removesuffix(place[0]) if place else text}.", remedy="See /api/v1/docs/.", field=field
        ) from None


def takes(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """A JSON body of that kind."""
    return {"application/json": described(kind)}


def answers(kind: type[msgspec.Struct], code: int = 200) -> dict[Any, Any]:
    """That kind, or a refusal."""
    return {(code, "application/json"): described(kind), **REFUSED, **_CONFLICT}


def page_of(shape: dict[str, Any], **more: dict[str, Any]) -> dict[str, Any]:
    """A page of ``shape``, as every list is answered; ``more`` is what else this one says."""
    link = {"type": ["string", "null"], "description": "Its address; null when there is none."}
    results = {"type": "array", "items": shape}
    return {
        "type": "object",
        "required": ["next", "previous", "results"],
        "properties": {"next": link, "previous": link, "results": results, **more},
    }


def described(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The OpenAPI schema of a struct, standing alone: inner structs are written out in place."""
    (body,), parts = msgspec.json.schema_components([kind], ref_template="#{name}")
    inlined: dict[str, Any] = _inline(body, parts)
    return inlined


def fields_of(row: Any, kind: type[msgspec.Struct], *leave: str) -> dict[str, Any]:
    """The attributes of ``row`` that ``kind`` names, without those in ``leave``."""
    return {name: getattr(row, name) for name in kind.__struct_fields__ if name not in leave}


def plain(out: msgspec.Struct) -> dict[str, Any]:
    """As an endpoint answers it."""
    plain: dict[str, Any] = msgspec.to_builtins(out)
    return plain


def _inline(node: Any, parts: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inline(inner, parts) for inner in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inline(parts[node["$ref"][1:]], parts)
    return {name: _inline(inner, parts) for name, inner in node.items()}
