"""A validator cannot be interrupted: what would take too long is refused before it begins."""

from __future__ import annotations

from typing import Any

import pytest

from engine.core.errors import BadInput
from engine.core.nesting import DEEPEST
from hbus_console.schemas.effort import Effort
from hbus_console.schemas.json_schema import CompiledSchema
from tests.costs import calls


def doubling(levels: int, keyword: str = "allOf") -> dict[str, Any]:
    """Each definition names the next one twice."""
    definitions: dict[str, Any] = {
        f"l{level}": {keyword: [{"$ref": f"#/$defs/l{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$defs": {**definitions, f"l{levels}": {"type": "object"}}, "$ref": "#/$defs/l0"}


def nested(depth: int) -> Any:
    payload: Any = {}
    for _ in range(depth):
        payload = {"a": payload}
    return payload


#: Two forms of one thing, each with the thing within: payloads of it double the work with every level.
FORMS = {
    "$defs": {
        "thing": {
            "anyOf": [
                {"required": [tag], "properties": {"a": {"$ref": "#/$defs/thing"}, tag: True}} for tag in ("x", "y")
            ]
        }
    },
    "$ref": "#/$defs/thing",
}


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("levels", [15, 33])
def test_a_schema_that_expands_without_bound_is_refused(keyword: str, levels: int) -> None:
    with pytest.raises(BadInput, match="expands to more than 20,000 rules"):
        CompiledSchema(doubling(levels, keyword))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"},
        {"$anchor": "me", "if": {"$ref": "#me"}},
        {"$dynamicAnchor": "me", "then": {"$dynamicRef": "#me"}},
        {"dependentSchemas": {"a": {"$ref": "#"}}},
        {"$defs": {"a%b": {"$ref": "#/$defs/a%25b"}}, "$ref": "#/$defs/a%25b"},
        {"$defs": {"p": {"$id": "urn:p", "$defs": {"y": {"$ref": "#/$defs/y"}}}}, "$ref": "#/$defs/p/$defs/y"},
    ],
)
def test_a_schema_that_refers_to_itself_for_one_value_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="refers to itself"):
        CompiledSchema(schema)


def test_a_long_chain_of_references_is_refused_and_does_not_run_out_of_stack() -> None:
    chain = {f"l{level}": {"$ref": f"#/$defs/l{level + 1}"} for level in range(3_000)}
    with pytest.raises(BadInput, match="more than 100 parts"):
        CompiledSchema({"$defs": {**chain, "l3000": True}, "$ref": "#/$defs/l0"})


def test_members_of_different_names_do_not_add_up_and_all_else_does() -> None:
    assert (
        Effort({"properties": {f"m{number}": {"type": "string"} for number in range(500)}}).excess([0] * 10_000) == ""
    )
    beside = Effort({"properties": {"a": {}}, "patternProperties": {"b": {}, "c": {}}, "additionalProperties": {}})
    assert "up to 5 rules" in beside.excess({"a": 1, "b": 2}, most=14)


def test_a_tree_costs_more_with_each_level_and_may_be_as_deep_as_a_payload() -> None:
    tree = CompiledSchema({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "name": {"type": "string"}}})
    deep: dict[str, Any] = {"name": 1}
    for _ in range(DEEPEST - 1):
        deep = {"left": deep, "right": {}}
    found = tree.problem(deep)
    assert found is not None
    assert found[0].endswith("left.name")


def test_a_payload_that_would_take_too_long_is_refused_with_its_reason() -> None:
    check = CompiledSchema(FORMS)
    assert check.problem({"x": 1, "a": {"y": 1}}) is None
    fault = check.problem(nested(40))
    assert fault is not None
    assert fault[0] == ""
    assert "nests 40 deep" in fault[1]
    assert "would take too long to check" in fault[1]


def test_where_too_much_failed_the_fault_is_told_without_its_place() -> None:
    check = CompiledSchema(FORMS)
    assert check.problem(nested(3)) == ("", "it fits none of the allowed forms")
    fault = check.problem(nested(14))
    assert fault is not None
    assert "too many rules" in fault[1]


def test_a_list_with_many_faults_is_refused_by_its_first() -> None:
    check = CompiledSchema({"items": {"type": "string"}})
    payload = [1] * 300_000
    with calls() as cost:
        found = check.problem(payload)
    assert found == ("[0]", "[0] must be of type string")
    assert check.problems(payload) == [found]
    cost.at_most(1_000, "calls")


def test_of_what_is_told_beside_hidden_values_the_work_is_bounded_too() -> None:
    fault = CompiledSchema({"items": {"type": "string"}}).problem_beside([1] * 300_000, [(0,)])
    assert fault is not None
    assert "would take too long" in fault[1]


def test_counting_itself_is_bounded() -> None:
    # Given as many parts as fit into a schema, all about the same value
    wide = {"$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(90)} | {"d90": {}}}
    with calls() as cost, pytest.raises(BadInput):
        Effort({**wide, "allOf": [{"$ref": "#/$defs/d0"}] * 5_000})
    cost.at_most(2_000_000, "calls")


def test_what_has_an_identity_of_its_own_is_where_its_references_begin() -> None:
    inner = {"$id": "https://x.example/inner", "$defs": {"t": {"type": "string"}}, "items": {"$ref": "#/$defs/t"}}
    assert CompiledSchema({"properties": {"a": inner}}).problem({"a": [1]}) == ("a[0]", "a[0] must be of type string")
