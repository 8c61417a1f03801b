from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.core.errors import BadInput
from hbus_console.imports.mapping import Mapper, Mapping, RowRefused, read_mapping


def test_fields_rename_const_casts_and_nulls_shape_the_payload() -> None:
    mapping = Mapping(
        fields=["id", "nights", "agent", "paid"],
        rename={"id": "booking.id"},
        const={"booking.system": "pms", "version": 2},
        casts={"nights": "integer", "agent": "integer", "paid": "boolean"},
        nulls=["NULL"],
    )
    payload = Mapper(mapping).payload({"id": "7", "nights": "3", "agent": "NULL", "paid": "yes", "left out": "x"})
    assert payload == {"booking": {"id": "7", "system": "pms"}, "nights": 3, "agent": None, "paid": True, "version": 2}


@pytest.mark.parametrize(
    ("cast", "value"),
    [("integer", "3.5"), ("integer", 3.5), ("number", "nan"), ("boolean", "perhaps"), ("integer", "")],
)
def test_a_value_that_cannot_be_cast_refuses_the_row_by_name(cast: str, value: object) -> None:
    with pytest.raises(RowRefused, match=f"nights holds .* which is no {cast}"):
        Mapper(Mapping(casts={"nights": cast})).payload({"nights": value})  # type: ignore[dict-item]


def test_a_missing_column_refuses_the_row() -> None:
    with pytest.raises(RowRefused, match="no column nights"):
        Mapper(Mapping(fields=["nights"])).payload({"id": 1})


def test_a_name_cannot_be_nested_below_a_value() -> None:
    with pytest.raises(RowRefused, match="cannot be nested"):
        Mapper(Mapping(rename={"b": "a.b"})).payload({"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("value", "form", "expected"),
    [
        ("2015-07-01", "", datetime(2015, 7, 1, tzinfo=UTC)),
        ("2015-07-01T08:30:00+02:00", "", datetime(2015, 7, 1, 6, 30, tzinfo=UTC)),
        ("7/1/2015", "%m/%d/%Y", datetime(2015, 7, 1, tzinfo=UTC)),
        ("1435708800", "", datetime(2015, 7, 1, tzinfo=UTC)),
        (1435708800123, "", datetime(2015, 7, 1, 0, 0, 0, 123000, tzinfo=UTC)),
    ],
)
def test_times_in_their_usual_forms(value: object, form: str, expected: datetime) -> None:
    options = Mapper(Mapping(time="at", time_format=form)).options({"at": value}, identity="x")
    assert options.time == expected


@pytest.mark.parametrize("value", ["", None, "yesterday", "7/1/2015", "99999999999999999999"])
def test_a_time_that_is_none_refuses_the_row(value: object) -> None:
    with pytest.raises(RowRefused, match="the time column at"):
        Mapper(Mapping(time="at")).options({"at": value}, identity="x")


@pytest.mark.parametrize("value", ["", None, "NULL"])
def test_an_empty_key_refuses_the_row(value: object) -> None:
    with pytest.raises(RowRefused, match="the key column id is empty"):
        Mapper(Mapping(key="id", nulls=["NULL"])).options({"id": value}, identity="x")


@pytest.mark.parametrize(("value", "kind"), [([1, 2], "a list"), ({"a": 1}, "an object")])
def test_a_key_that_is_no_single_value_refuses_the_row(value: object, kind: str) -> None:
    with pytest.raises(RowRefused, match=f"the key column id holds no single value but {kind}"):
        Mapper(Mapping(key="id")).options({"id": value}, identity="x")


@pytest.mark.parametrize(("value", "key"), [("a", "a"), (5, "5"), (1.5, "1.5"), (True, "True")])
def test_a_single_value_is_a_key(value: object, key: str) -> None:
    assert Mapper(Mapping(key="id")).options({"id": value}, identity="x").key == key


def test_identity_becomes_message_id_and_idempotency_key() -> None:
    options = Mapper(Mapping(type="t", key="id")).options({"id": 5}, identity="abc")
    assert (options.type, options.key, options.message_id, options.idempotency_key) == ("t", "5", "abc", "import:abc")


@pytest.mark.parametrize("text", ["{", "[]", '{"topc": "x"}', '{"casts": {"a": "date"}}'])
def test_a_mapping_file_that_cannot_be_meant_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mapping.json"
    file.write_text(text)
    with pytest.raises(BadInput) as refused:
        read_mapping(file)
    assert refused.value.field == "mapping"
