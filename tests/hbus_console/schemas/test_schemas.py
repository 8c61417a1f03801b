"""Which schemas are taken, and what is said about a payload that breaks one."""

from __future__ import annotations

from typing import Any

import pytest

from engine.core.errors import BadInput
from hbus_console.schemas.json_schema import DIALECT, MAX_BYTES, MAX_DEPTH, CompiledSchema, check_schema

BOOKING = {
    "$schema": DIALECT,
    "type": "object",
    "required": ["booking", "guests"],
    "additionalProperties": False,
    "properties": {
        "booking": {"type": "integer", "minimum": 1},
        "arrival": {"type": "string", "format": "date"},
        "board": {"enum": ["BB", "HB"]},
        "guests": {"type": "array", "items": {"type": "object", "required": ["name"]}},
    },
}


@pytest.mark.parametrize(
    ("payload", "field", "said"),
    [
        ({"guests": []}, "booking", "booking is required"),
        ({"booking": 1, "guests": [{"name": "A"}, {}]}, "guests[1].name", "guests[1].name is required"),
        ({"booking": "7", "guests": []}, "booking", "booking must be of type integer"),
        ({"booking": 0, "guests": []}, "booking", "booking must be at least 1"),
        ({"booking": 1, "guests": [], "arrival": "soon"}, "arrival", "arrival is not a date"),
        ({"booking": 1, "guests": [], "board": "XX"}, "board", 'board must be one of "BB", "HB"'),
        ({"booking": 1, "guests": [], "vip": True}, "vip", "vip is not a property its schema knows"),
        ([], "", "it must be of type object"),
    ],
)
def test_a_fault_names_its_field(payload: Any, field: str, said: str) -> None:
    assert CompiledSchema(BOOKING).problem(payload) == (field, said)


def test_a_valid_payload_has_no_problem() -> None:
    assert CompiledSchema(BOOKING, "urn:x").problem({"booking": 1, "guests": [{"name": "A"}]}) is None
    assert CompiledSchema(BOOKING, "urn:x").uri == "urn:x"


def test_no_sentence_quotes_the_payload() -> None:
    schema = {
        "properties": {
            "a": {"type": "integer"}, "b": {"enum": ["x"]}, "c": {"const": 1}, "d": {"pattern": "^x"},
            "e": {"format": "email"}, "f": {"maxLength": 2}, "g": {"oneOf": [{"const": 1}]}, "h": {"not": {}},
            "i": {"anyOf": [{"const": 1}]}, "j": False,
        }
    }  # fmt: skip
    payload = dict.fromkeys("abcdefghij", "Maria Silva")
    problems = CompiledSchema(schema).problems(payload)
    assert len(problems) == 10
    assert "Maria" not in str(problems)


def test_all_faults_are_listed_up_to_the_limit() -> None:
    schema = CompiledSchema({"additionalProperties": {"type": "integer"}})
    assert len(schema.problems({str(number): "x" for number in range(50)}, limit=5)) == 5


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("text", "A schema is a JSON object"),
        ({"type": "objct"}, "not a valid schema at type"),
        ({"pattern": "("}, "not a valid schema at pattern"),
        ({"pattern": "^(?=a)b"}, "not a valid schema at pattern"),
        ({"$ref": "https://example.com/other.json"}, "lies outside it"),
        ({"properties": {"a": {"$ref": "other.json#/x"}}}, "lies outside it"),
        ({"$ref": "#/$defs/none"}, "not a valid schema"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "draft-07"),
        ({"description": "x" * MAX_BYTES}, "bytes"),
    ],
)
def test_a_bad_schema_is_refused_at_its_field(body: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        check_schema(body)
    assert refused.value.field == "body"
    assert refused.value.remedy


@pytest.mark.parametrize("pattern", ["^(?=a)b", "(?<!x)a", r"(a)\1"])
def test_a_pattern_that_would_have_to_go_back_is_refused_for_that(pattern: str) -> None:
    for body in ({"pattern": pattern}, {"patternProperties": {pattern: {}}}):
        with pytest.raises(BadInput) as refused:
            check_schema(body)
        assert "lookaround" in refused.value.remedy
        assert "not supported here" in refused.value.remedy


def test_a_schema_too_deep_is_refused() -> None:
    body: dict[str, Any] = {}
    for _ in range(MAX_DEPTH):
        body = {"items": body}
    check_schema(body)
    with pytest.raises(BadInput, match="deeper"):
        check_schema({"items": body})


def test_a_word_that_looks_like_a_reference_inside_data_is_no_reference() -> None:
    check_schema({"const": {"$ref": "https://example.com/"}})
    check_schema({"properties": {"$ref": {"type": "string"}}})


SSN = {"properties": {"ssn": {"pattern": "^[0-9]"}}}
GUESS = {"if": {"properties": {"ssn": {"const": "1"}}}, "then": {"required": ["a"]}, "else": {"required": ["b"]}}


@pytest.mark.parametrize(
    "body",
    [
        GUESS,
        {"allOf": [GUESS]},
        {"anyOf": [GUESS, False]},
        {"oneOf": [{"properties": {"ssn": {"maxLength": 9}}}, {"properties": {"ssn": {"minLength": 2}}}]},
        {"$ref": "#/$defs/guess", "$defs": {"guess": GUESS}},
        {"dependentSchemas": {"ssn": GUESS}},
        {"if": SSN, "then": True, "else": {"properties": {"n": {"type": "string"}}}},
        {"anyOf": [{"properties": {"ssn": {"pattern": "^[0-9]"}, "n": True}}, True], "unevaluatedProperties": False},
        {
            "anyOf": [{**SSN, "patternProperties": {"n": True}}, {"properties": {"ssn": True}}],
            "unevaluatedProperties": {"type": "string"},
        },
        {"not": {"properties": {"ssn": {"const": "masked"}}}},
        {"properties": {"ssn": {"maxLength": 1}}},
    ],
)
def test_a_rule_that_hangs_on_a_hidden_value_is_taken_for_kept(body: dict[str, Any]) -> None:
    """Each holds for some value there and breaks for another; a stand-in says nothing of either."""
    schema = CompiledSchema(body)
    stood_in = {"ssn": "masked", "n": 1}
    assert schema.problem_beside(stood_in, [("ssn",)]) is None
    # As it stands it breaks, so it was by what is hidden that it was let pass.
    assert schema.problem(stood_in) is not None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"properties": {"guest": GUESS, "then": {"required": ["x"]}}}, "then.x"),
        # What is hidden lies elsewhere.
        ({"properties": {"other": GUESS}}, "other.b"),
        ({"properties": {"list": {"items": GUESS}}}, "list[1].b"),
        ({"properties": {"other": {"properties": {}, "unevaluatedProperties": False}}}, "other.ssn"),
    ],
)
def test_a_rule_that_hangs_on_what_is_seen_is_told(body: dict[str, Any], field: str) -> None:
    payload = {
        "guest": {"ssn": "masked"},
        "list": [{"ssn": "masked"}, {"ssn": "2"}],
        "other": {"ssn": "2"},
        "then": {},
    }
    told = CompiledSchema(body).problem_beside(payload, [("guest", "ssn"), ("list", 0, "ssn")])
    assert told is not None
    assert told[0] == field
