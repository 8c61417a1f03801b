"""What a page offers to begin with is small, whatever a schema asks for: everybody who sees the topic has it made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hbus_console.schemas.json_schema import CompiledSchema
from hbus_console.schemas.sample import sample
from tests.costs import calls

ENDLESS = {
    "required in itself": {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    "twice in itself": {"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]},
    "doubled": {
        "$defs": {
            **{f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(12)},
            "l12": {"properties": {f"m{n}": {"type": "string"} for n in range(50)}},
        },
        "$ref": "#/$defs/l0",
    },
    "many items": {"type": "array", "items": {"type": "array", "minItems": 10**9, "items": {}}, "minItems": 10**9},
    "long text": {"type": "string", "minLength": 10**9},
    "long mail": {"type": "string", "format": "email", "minLength": 10**9},
}


@pytest.mark.parametrize("schema", ENDLESS.values(), ids=ENDLESS)
def test_it_is_small_and_soon_made(schema: dict[str, Any]) -> None:
    CompiledSchema(schema)
    with calls() as cost:
        made = sample(schema)
    assert len(json.dumps(made)) < 100_000
    cost.at_most(200_000, "calls")


def test_what_it_offers_is_valid_where_the_schema_can_be_followed() -> None:
    schema = {
        "type": "object",
        "properties": {
            "hotel": {"type": "string", "minLength": 3},
            "nights": {"type": "integer", "minimum": 2},
            "guests": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/guest"}},
        },
        "required": ["hotel", "nights", "guests"],
        "$defs": {"guest": {"allOf": [{"properties": {"name": {"type": "string"}}, "required": ["name"]}]}},
    }
    made = sample(schema)
    assert made["guests"] == [{"name": "text"}] * 2
    assert CompiledSchema(schema).problem(made) is None
