"""Which schema may follow which."""

from __future__ import annotations

from typing import Any

import pytest

from hbus_console.schemas.json_schema import compatibility

OLD: dict[str, Any] = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "note": {"type": "string", "maxLength": 20},
        "guests": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
    },
}


def with_property(name: str, schema: Any, *, required: bool = False) -> dict[str, Any]:
    return {
        **OLD,
        "properties": {**OLD["properties"], name: schema},
        "required": [*OLD["required"], name] if required else OLD["required"],
    }


def said(new: Any, mode: str, old: Any = OLD) -> list[str]:
    return [str(one) for one in compatibility(old, new, mode)]


def test_the_same_schema_may_always_follow() -> None:
    assert said(OLD, "full") == []


def test_none_lets_anything_follow() -> None:
    assert said({"type": "string"}, "none") == []


def test_an_optional_property_may_be_added_in_every_mode() -> None:
    assert said(with_property("vip", {"type": "boolean"}), "full") == []


def test_a_new_required_property_breaks_readers_of_old_messages_only() -> None:
    new = with_property("vip", {"type": "boolean"}, required=True)
    assert said(new, "backward") == ["vip is required, but old messages may lack it."]
    assert said(new, "forward") == []


def test_a_property_no_longer_required_breaks_old_readers_only() -> None:
    new = {**OLD, "required": []}
    assert said(new, "backward") == []
    assert said(new, "forward") == ["id is required, but new messages may lack it."]
    assert said(new, "full") == ["id is required, but new messages may lack it."]


@pytest.mark.parametrize(
    ("before", "after", "mode", "path"),
    [
        ({"type": "integer"}, {"type": "string"}, "backward", "x"),
        ({"type": "number"}, {"type": "integer"}, "backward", "x"),
        ({}, {"type": "integer"}, "backward", "x"),
        ({"type": ["string", "null"]}, {"type": "string"}, "backward", "x"),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, "backward", "x"),
        ({"type": "string"}, {"enum": ["a"]}, "backward", "x"),
        ({"type": "string"}, {"const": "a"}, "backward", "x"),
        ({"type": "integer"}, {"type": "integer", "minimum": 1}, "backward", "x"),
        ({"type": "integer", "maximum": 9}, {"type": "integer", "maximum": 8}, "backward", "x"),
        ({"type": "string"}, {"type": "string", "maxLength": 5}, "backward", "x"),
        ({"type": "string"}, {"type": "string", "format": "date"}, "backward", "x"),
        ({"type": "string", "format": "uuid"}, {"type": "string", "format": "date"}, "backward", "x"),
        ({"type": "string"}, {"type": "string", "pattern": "^a"}, "backward", "x"),
        ({"type": "integer", "multipleOf": 2}, {"type": "integer", "multipleOf": 4}, "backward", "x"),
        ({"type": "array"}, {"type": "array", "uniqueItems": True}, "backward", "x"),
        ({"type": "array", "items": {"const": 1}}, {"type": "array", "items": {"const": 2}}, "backward", "x[]"),
        ({"type": "object", "properties": {"y": {}}}, {"type": "object", "properties": {"y": False}}, "full", "x.y"),
        ({"type": "object"}, {"type": "object", "additionalProperties": False}, "backward", "x"),
        (
            {"type": "object", "properties": {"y": {}}, "additionalProperties": False},
            {"type": "object", "additionalProperties": False},
            "backward",
            "x.y",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"type": "object", "additionalProperties": {"type": "string"}},
            "backward",
            "x.*",
        ),
        (
            {"type": "object", "additionalProperties": False},
            {"type": "object", "properties": {"y": {}}, "additionalProperties": False},
            "forward",
            "x.y",
        ),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "integer"}, "backward", "x"),
        ({"type": "integer"}, {"type": "number"}, "forward", "x"),
        ({"$ref": "#/$defs/missing"}, {"type": "integer"}, "backward", "x"),
    ],
)  # fmt: skip
def test_narrowing_breaks_and_names_the_path(before: Any, after: Any, mode: str, path: str) -> None:
    old, new = with_property("x", before), with_property("x", after)
    assert [one.path for one in compatibility(old, new, mode)] == [path]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"type": "integer"}, {"type": "number"}),
        ({"type": "integer"}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}),
        ({"enum": ["a"]}, {"type": "string"}),
        ({"type": "integer", "minimum": 2}, {"type": "integer", "minimum": 1}),
        ({"type": "string", "format": "date"}, {"type": "string"}),
        ({"type": "object", "additionalProperties": False}, {"type": "object"}),
        ({"title": "old", "type": "string"}, {"title": "new", "description": "said better", "type": "string"}),
    ],
)
def test_widening_is_backward_compatible(before: Any, after: Any) -> None:
    assert said(with_property("x", after), "backward", with_property("x", before)) == []


def test_a_definition_behind_a_reference_is_followed() -> None:
    old = {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}
    new = {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "string"}}}
    assert [one.path for one in compatibility(old, new, "backward")] == ["a"]


def test_a_recursive_schema_ends() -> None:
    old = {"type": "object", "properties": {"child": {"$ref": "#"}, "n": {"type": "integer"}}}
    new = {"type": "object", "properties": {"child": {"$ref": "#"}, "n": {"type": "string"}}}
    assert [one.path for one in compatibility(old, new, "backward")] == ["n"]


@pytest.mark.parametrize(
    "addition",
    [
        {"if": {"required": ["note"]}, "then": {"required": ["guests"]}},
        {"oneOf": [{"required": ["id"]}, {"required": ["note"]}]},
        {"dependentRequired": {"id": ["note"]}},
        {"patternProperties": {"^x-": {"type": "string"}}},
        {"not": {"required": ["note"]}},
        {"propertyNames": {"maxLength": 3}},
    ],
)
def test_what_cannot_be_judged_is_said_and_counts_as_breaking(addition: dict[str, Any]) -> None:
    found = compatibility(OLD, {**OLD, **addition}, "backward")
    assert [one.judged for one in found] == [False]
    assert "cannot be judged" in str(found[0])


def test_an_unchanged_keyword_beyond_judgement_does_no_harm() -> None:
    old = {**OLD, "dependentRequired": {"id": ["note"]}}
    new = {**with_property("vip", {"type": "boolean"}), "dependentRequired": {"id": ["note"]}}
    assert said(new, "backward", old) == []


def test_a_changed_definition_inside_an_unchanged_keyword_is_noticed() -> None:
    rule = {"allOf": [{"$ref": "#/$defs/n"}]}
    old = {**OLD, **rule, "$defs": {"n": {"required": ["id"]}}}
    new = {**OLD, **rule, "$defs": {"n": {"required": ["note"]}}}
    assert [one.judged for one in compatibility(old, new, "backward")] == [False]


def test_nested_lists_are_named_to_the_leaf() -> None:
    new = with_property("guests", {"type": "array", "items": {"type": "object", "required": ["name"]}})
    assert said(new, "backward") == ["guests[].name is required, but old messages may lack it."]


def test_an_unknown_mode_is_an_error() -> None:
    with pytest.raises(ValueError, match="sideways"):
        compatibility(OLD, OLD, "sideways")
