"""Envelopes as columns: whole, odd, hostile, and none of it lost."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from engine.bus import Message
from engine.bus.message import encode
from engine.core.errors import BadInput
from engine.pipeline.source.columns import COLUMNS, USUAL, Columns, Rows, ddl_of, wanted

WHOLE = Message(
    id="m1",
    source="/desk",
    type="booking.created",
    time="2026-11-21T08:00:00.5Z",
    subject="room 12",
    partitionkey="hotel-1",
    sequence="7",
    expirytime="2026-11-22T08:00:00+01:00",
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    correlationid="c",
    causationid="d",
    hbuspriority="high",
    extensions={"tenant": "acme"},
)


def rows_of(*bodies: bytes, columns: str = "") -> list[dict[str, Any]]:
    count = len(bodies)
    rows = Rows("t", "-", [f"{n}-0" for n in range(count)], [1_790_000_000_000 + n for n in range(count)], bodies)
    found: list[dict[str, Any]] = Columns(wanted(columns)).table(rows).to_pylist()
    return found


def test_every_attribute_has_its_column() -> None:
    (row,) = rows_of(encode(WHOLE))

    assert {name: row[name] for name in ("id", "source", "type", "subject", "partitionkey", "sequence")} == {
        "id": "m1",
        "source": "/desk",
        "type": "booking.created",
        "subject": "room 12",
        "partitionkey": "hotel-1",
        "sequence": "7",
    }
    assert row["time"] == datetime.datetime(2026, 11, 21, 8, 0, 0, 500_000, tzinfo=datetime.UTC)
    assert row["expirytime"] == datetime.datetime(2026, 11, 22, 7, tzinfo=datetime.UTC)
    assert row["stored_at"] == datetime.datetime.fromtimestamp(1_790_000_000, datetime.UTC)
    assert (row["topic"], row["log"], row["position"], row["size"]) == ("t", "-", "0-0", len(encode(WHOLE)))
    assert row["extensions"] == [("tenant", "acme")]
    assert (row["hbuspriority"], row["malformed"]) == ("high", None)
    assert tuple(row) == USUAL
    of_the_message = set(Message.__struct_encode_fields__) - {"_extensions"}
    assert of_the_message < set(COLUMNS), "an attribute has no column"


def test_what_is_not_said_is_null() -> None:
    (row,) = rows_of(encode(Message(id="m", source="s", type="t")))
    absent = ("subject", "partitionkey", "time", "data", "data_base64", "extensions", "malformed", "traceparent")
    assert {name: row[name] for name in absent} == dict.fromkeys(absent)


def test_payloads_are_kept_as_they_were_sent() -> None:
    spaced = b'{"specversion":"1.0","id":"a","source":"s","type":"t","data":{"b" : 1.50, "a":"\xc3\xbc"}}'
    binary = json.dumps({"specversion": "1.0", "id": "b", "source": "s", "type": "t", "data_base64": "AP8="}).encode()

    json_row, binary_row = rows_of(spaced, binary)

    assert json_row["data"] == '{"b" : 1.50, "a":"ü"}'
    assert (binary_row["data"], binary_row["data_base64"]) == (None, b"\x00\xff")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"[]",
        b'{"id":"x"}',
        b'{"specversion":"0.3","id":"a","source":"s","type":"t"}',
        b'{"specversion":"1.0","id":1,"source":"s","type":"t"}',
        b'{"specversion":"1.0","id":"a","source":"s","type":"t","data":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
        b'{"specversion":"1.0","id":"\xff","source":"s","type":"t"}',
        b'{"specversion":"1.0","id":"a","source":"s","type":"t","Bad-Name":"x"}',
        b"\x00" * 10,
    ],
    ids=range(10),
)
@pytest.mark.parametrize("columns", ["", "id,partitionkey,malformed,envelope,size,position", "malformed"])
def test_what_is_no_envelope_is_a_row_that_says_why(body: bytes, columns: str) -> None:
    good = encode(WHOLE)
    rows = rows_of(good, body, good, columns=columns)

    assert [row["malformed"] is None for row in rows][::2] == [True, True]
    if rows[1]["malformed"] is None:
        # Narrower readers pass over members that nobody asked for.
        assert columns
        assert b"Bad-Name" in body or b"[[" in body
    else:
        assert rows[1].get("id") is None
    if "envelope" in rows[1]:
        assert (rows[1]["envelope"], rows[1]["size"]) == (body, len(body))


def test_odd_text_is_a_row_too() -> None:
    lone = b'{"specversion":"1.0","id":"a\\ud800b","source":"s","type":"t","data":"x"}'
    raw = b'{"specversion":"1.0","id":"a","source":"s","type":"t","data":"\xff"}'
    noon = b'{"specversion":"1.0","id":"c","source":"s","type":"t","time":"high noon"}'

    rows = rows_of(lone, raw, noon)

    assert all(row["malformed"] is not None or row["id"] for row in rows)
    assert rows[2]["time"] is None


def test_instants_of_any_writing_are_read_beside_each_other() -> None:
    texts = ["2026-11-21T08:00:00Z", "2026-11-21T09:30:00.123456+01:30", "2026-11-21t08:00:00z", "nonsense", ""]
    bodies = [encode(Message(id="a", source="s", type="t", time=text)) for text in texts]

    eight = datetime.datetime(2026, 11, 21, 8, tzinfo=datetime.UTC)
    found = [row["time"] for row in rows_of(*bodies, columns="time")]

    assert found[0] == eight
    assert found[1] == eight.replace(microsecond=123_456)
    assert found[2] in (eight, None)
    assert found[3:] == [None, None]


def test_just_the_columns_that_are_wanted_in_their_order() -> None:
    (row,) = rows_of(encode(WHOLE), columns="partitionkey, id,id")
    assert list(row.items()) == [("partitionkey", "hotel-1"), ("id", "m1")]
    assert ddl_of(("position", "stored_at", "extensions")) == (
        "`position` STRING, `stored_at` TIMESTAMP, `extensions` MAP<STRING, STRING>"
    )


def test_what_is_no_column_is_refused() -> None:
    with pytest.raises(BadInput) as refused:
        wanted("id,colour")
    assert (refused.value.field, "colour" in str(refused.value)) == ("columns", True)
