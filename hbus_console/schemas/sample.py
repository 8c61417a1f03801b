"""A payload to begin with: small, and valid wherever the schema lets itself be followed."""

from __future__ import annotations

from typing import Any

#: Optional parts deeper than this are left out; references may go round in circles.
_DEEP = 6
_FORMATS = {
    "date": "2026-11-21",
    "date-time": "2026-11-21T08:00:00Z",
    "time": "08:00:00Z",
    "duration": "P1D",
    "email": "guest@hotel.example",
    "idn-email": "guest@hotel.example",
    "hostname": "hotel.example",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://hotel.example/",
    "uri-reference": "/rooms/1",
    "uuid": "0199e4d2-7a3b-7c44-9f1e-3b7d5c6a1e20",
}


def sample(schema: Any) -> Any:
    """An example of what ``schema`` describes; ``{}`` when it says nothing."""
    value = _value(schema, schema, 0)
    return {} if value is None and schema in (True, {}, None) else value


def _value(schema: Any, root: Any, depth: int) -> Any:
    if not isinstance(schema, dict):
        return None
    schema = _flat(schema, root)
    offered = [schema[name] for name in ("const", "default") if name in schema]
    offered += [*schema.get("examples", []), *schema.get("enum", [])]
    if offered:
        return offered[0]
    for keyword in ("anyOf", "oneOf"):
        if schema.get(keyword):
            beside = {name: inner for name, inner in schema.items() if name != keyword}
            return _value({**beside, **_flat(schema[keyword][0], root)}, root, depth)
    return _of_kind(schema, root, depth)


def _of_kind(schema: dict[str, Any], root: Any, depth: int) -> Any:
    kind = schema.get("type", "object" if "properties" in schema else None)
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if kind == "object":
        return _object(schema, root, depth)
    if kind == "array":
        items = [_value(schema.get("items", {}), root, depth + 1)] if depth < _DEEP else []
        return items * max(1, schema.get("minItems", 0)) if schema.get("maxItems") != 0 else []
    return _plain(kind, schema)


def _object(schema: dict[str, Any], root: Any, depth: int) -> dict[str, Any]:
    required = schema.get("required", [])
    return {
        name: _value(inner, root, depth + 1)
        for name, inner in schema.get("properties", {}).items()
        if inner is not False and (name in required or depth < _DEEP)
    }


def _plain(kind: str | None, schema: dict[str, Any]) -> Any:
    if kind in ("integer", "number"):
        return _number(schema)
    if kind == "string":
        text = _FORMATS.get(schema.get("format", ""), "text")
        return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength", len(text) + 1_000)]
    return {"boolean": True}.get(kind or "")


def _number(schema: dict[str, Any]) -> Any:
    """The smallest number asked for, or the largest allowed, or 1."""
    if "minimum" in schema:
        number = schema["minimum"]
    elif "exclusiveMinimum" in schema:
        number = schema["exclusiveMinimum"] + 1
    else:
        number = min(1, schema.get("maximum", 1), schema.get("exclusiveMaximum", 2) - 1)
    step = schema.get("multipleOf")
    return number if not step else -(-number // step) * step


def _flat(schema: Any, root: Any) -> dict[str, Any]:
    """``schema`` with its local reference followed and the parts of ``allOf`` put together."""
    flat: dict[str, Any] = dict(schema) if isinstance(schema, dict) else {}
    for _ in range(_DEEP):
        reference = flat.pop("$ref", None)
        if reference is None:
            break
        flat = {**_target(root, reference), **flat}
    for part in flat.pop("allOf", []):
        inner = _flat(part, root) if isinstance(part, dict) and part.get("$ref") != "#" else {}
        properties = {**inner.get("properties", {}), **flat.get("properties", {})}
        required = [*inner.get("required", []), *flat.get("required", [])]
        flat = {**inner, **flat}
        if properties:
            flat |= {"properties": properties, "required": required}
    return flat


def _target(root: Any, reference: str) -> dict[str, Any]:
    node = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        if step:
            node = node.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(node, dict) else {}
    return dict(node) if isinstance(node, dict) else {}
