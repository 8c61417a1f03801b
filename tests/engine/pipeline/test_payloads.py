"""Payloads as columns by their JSON Schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.core.errors import BadInput
from engine.pipeline.payloads import MOST_DEPTH, ddl_of_schema, with_payload

TEXT, NUMBER, DAY = {"type": "string"}, {"type": "integer"}, {"type": "string", "format": "date"}


def of(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members}


@pytest.mark.parametrize(
    ("schema", "type_"),
    [
        (TEXT, "STRING"),
        (NUMBER, "BIGINT"),
        ({"type": "number"}, "DOUBLE"),
        ({"type": ["integer", "number"]}, "DOUBLE"),
        ({"type": "boolean"}, "BOOLEAN"),
        ({"type": "string", "format": "date-time"}, "TIMESTAMP"),
        ({"type": "string", "format": "date"}, "DATE"),
        ({"type": "string", "format": "email"}, "STRING"),
        ({"type": ["integer", "null"]}, "BIGINT"),
        ({"type": ["integer", "string"]}, "STRING"),
        ({"enum": ["a", None]}, "STRING"),
        ({"enum": [1, 2]}, "BIGINT"),
        ({"const": True}, "BOOLEAN"),
        ({"const": 1.5}, "DOUBLE"),
        ({"type": "array", "items": NUMBER}, "ARRAY<BIGINT>"),
        ({"type": "array"}, "ARRAY<STRING>"),
        ({"type": "array", "prefixItems": [TEXT, NUMBER], "items": NUMBER}, "ARRAY<STRING>"),
        ({"type": "object"}, "MAP<STRING, STRING>"),
        ({"type": "object", "additionalProperties": NUMBER}, "MAP<STRING, BIGINT>"),
        ({"type": "object", "additionalProperties": False}, "MAP<STRING, STRING>"),
        ({"properties": {"a": NUMBER}}, "STRUCT<`a`: BIGINT>"),
        (of(a=of(b=TEXT)), "STRUCT<`a`: STRUCT<`b`: STRING>>"),
        ({"anyOf": [NUMBER, {"type": "null"}]}, "BIGINT"),
        ({"oneOf": [of(a=TEXT), {"type": "null"}]}, "STRUCT<`a`: STRING>"),
        ({"anyOf": [NUMBER, {"type": "integer", "minimum": 7}]}, "BIGINT"),
        ({"anyOf": [of(a=TEXT), of(b=TEXT)]}, "STRING"),
        ({"anyOf": [NUMBER, of(b=TEXT)]}, "STRING"),
        ({**of(a=TEXT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, "STRUCT<`a`: STRING>"),
        ({"allOf": [of(a=TEXT), of(b=NUMBER)]}, "STRUCT<`a`: STRING, `b`: BIGINT>"),
        ({"$ref": "#/$defs/a~1b"}, "DATE"),
        ({}, "STRING"),
        (True, "STRING"),
        ({"type": "null"}, "STRING"),
    ],
)
def test_a_member_is_of_the_type_that_its_schema_says(schema: Any, type_: str) -> None:
    whole = {**of(m=schema), "$defs": {"a/b": {"type": "string", "format": "date"}}}
    assert ddl_of_schema(whole) == f"STRUCT<`m`: {type_}>"
    assert ddl_of_schema(json.dumps(whole)) == f"STRUCT<`m`: {type_}>"


def test_a_name_of_any_letters_is_a_name() -> None:
    assert ddl_of_schema(of(**{"a`b c": TEXT, "ü.x": NUMBER})) == "STRUCT<`a``b c`: STRING, `ü.x`: BIGINT>"


def test_what_contains_itself_ends_as_text() -> None:
    tree = {"type": "object", "properties": {"name": TEXT, "children": {"type": "array", "items": {"$ref": "#"}}}}
    inner = "STRUCT<`name`: STRING, `children`: STRING>"
    assert ddl_of_schema(tree) == f"STRUCT<`name`: STRING, `children`: ARRAY<{inner}>>"


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "no object"),
        (TEXT, "neither an object nor a list"),
        ({}, "neither an object nor a list"),
        (of(a={"$ref": "other.json#/a"}), "leads out of it"),
        (of(a={"$ref": "#/$defs/a"}), "leads nowhere"),
        ({"$ref": "#"}, "in each other"),
        ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}] * 2}}, "$ref": "#/$defs/a"}, "parts"),
        (
            {"$defs": {f"d{n}": of(a={"$ref": f"#/$defs/d{n + 1}"}, b={"$ref": f"#/$defs/d{n + 1}"}) for n in range(30)}
             | {"d30": TEXT}, "$ref": "#/$defs/d0"},
            "parts",
        ),
    ],
)  # fmt: skip
def test_what_is_no_use_is_refused_by_its_field(schema: Any, says: str) -> None:
    with pytest.raises(BadInput) as raised:
        ddl_of_schema(schema)
    assert raised.value.field == "schema"
    assert says in str(raised.value)
    assert MOST_DEPTH < 100


def test_payloads_become_columns_and_what_does_not_fit_is_null(spark: Any) -> None:
    schema = {
        **of(
            hotel=TEXT,
            nights={"type": ["integer", "null"]},
            stay={"$ref": "#/$defs/stay"},
            guests={"type": "array", "items": of(name=TEXT)},
            extra={"anyOf": [NUMBER, of(x=TEXT)]},
        ),
        "$defs": {"stay": of(arrival=DAY, paid={"type": "string", "format": "date-time"})},
    }
    sent = [
        '{"hotel": "City", "nights": 3, "stay": {"arrival": "2026-11-30", "paid": "2026-11-29T10:00:00.5+02:00"},'
        ' "guests": [{"name": "Ann"}, {"name": null}], "extra": {"x": "y"}, "more": 1}',
        '{"hotel": "Resort", "nights": "three", "guests": [], "extra": 7}',
        "{",
        None,
    ]
    frame = spark.createDataFrame([(each,) for each in sent], "data STRING")
    rows = with_payload(frame, schema).selectExpr(
        "payload.hotel", "payload.nights", "string(payload.stay.arrival) arrival",
        "unix_millis(payload.stay.paid) paid", "payload.guests.name names", "payload.extra",
    ).collect()  # fmt: skip
    assert [tuple(row) for row in rows] == [
        ("City", 3, "2026-11-30", 1_795_939_200_500, ["Ann", None], '{"x":"y"}'),
        ("Resort", None, None, None, [], "7"),
        (None, None, None, None, None, None),
        (None, None, None, None, None, None),
    ]
