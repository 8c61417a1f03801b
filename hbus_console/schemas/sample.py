"""A payload to begin with: small, and valid wherever the schema lets itself be followed."""

from __future__ import annotations

from typing import Any

#: Optional parts deeper than this are left out; references may go round in circles.
_DEEP = 6
#: Required ones, too: no payload nests so deep that somebody begins with it by hand.
_DEEPEST = 24
#: Parts of the schema looked at; the rest is left out. A schema of a few bytes can describe a payload without end.
_MOST_PARTS = 2_000
_MOST_ITEMS = 20
_MOST_CHARACTERS = 1_000
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
    """An example of what ``schema`` describes; ``{}`` when it says nothing. Of bounded size, whatever it asks for."""
    value = _Example(schema).value(schema, 0)
    return {} if value is None and schema in (True, {}, None) else value


class _Example:
    """One example in the making: where references begin, and how much may still be looked at."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._parts = _MOST_PARTS

    def value(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict) or self._parts <= 0:
            return None
        schema = self._flat(schema)
        offered = [schema[name] for name in ("const", "default") if name in schema]
        offered += [*schema.get("examples", []), *schema.get("enum", [])]
        if offered:
            return offered[0]
        for keyword in ("anyOf", "oneOf"):
            if schema.get(keyword):
                beside = {name: inner for name, inner in schema.items() if name != keyword}
                return self.value({**beside, **self._flat(schema[keyword][0])}, depth)
        return self._of_kind(schema, depth)

    def _of_kind(self, schema: dict[str, Any], depth: int) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else None)
        if isinstance(kind, list):
            kind = next((one for one in kind if one != "null"), "null")
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            items = [self.value(schema.get("items", {}), depth + 1)] if depth < _DEEP else []
            number = min(max(1, schema.get("minItems", 0)), _MOST_ITEMS)
            return items * number if schema.get("maxItems") != 0 else []
        return _plain(kind, schema)

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required", [])
        return {
            name: self.value(inner, depth + 1)
            for name, inner in schema.get("properties", {}).items()
            if inner is not False and (depth < _DEEP or (name in required and depth < _DEEPEST)) and self._parts > 0
        }

    def _flat(self, schema: Any) -> dict[str, Any]:
        """``schema`` with its local reference followed and the parts of ``allOf`` put together."""
        self._parts -= 1
        flat: dict[str, Any] = dict(schema) if isinstance(schema, dict) else {}
        for _ in range(_DEEP):
            reference = flat.pop("$ref", None)
            if reference is None:
                break
            flat = {**_target(self._root, reference), **flat}
        for part in flat.pop("allOf", []):
            if self._parts <= 0:
                break
            inner = self._flat(part) if isinstance(part, dict) and part.get("$ref") != "#" else {}
            properties = {**inner.get("properties", {}), **flat.get("properties", {})}
            required = [*inner.get("required", []), *flat.get("required", [])]
            flat = {**inner, **flat}
            if properties:
                flat |= {"properties": properties, "required": required}
        return flat


def _plain(kind: str | None, schema: dict[str, Any]) -> Any:
    if kind in ("integer", "number"):
        return _number(schema)
    if kind == "string":
        text = _FORMATS.get(schema.get("format", ""), "text")
        shortest = min(schema.get("minLength", 0), _MOST_CHARACTERS)
        return text.ljust(shortest, "x")[: schema.get("maxLength", _MOST_CHARACTERS)]
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


def _target(root: Any, reference: str) -> dict[str, Any]:
    node = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        if step:
            node = node.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(node, dict) else {}
    return dict(node) if isinstance(node, dict) else {}
