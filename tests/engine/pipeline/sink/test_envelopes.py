"""Rows as envelopes: the same bytes whichever way they are written, and nothing that nobody may publish."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from engine.bus import Message, decode, encode
from engine.core.clock import ManualClock
from engine.core.errors import BadInput
from engine.pipeline.sink.envelopes import envelopes_of, refuse_malformed, taken, with_malformed_left_out
from engine.pipeline.sink.errors import RowRefused
from engine.pipeline.source.columns import ORIGINAL, USUAL, Columns, Rows, schema_of, spark_type_of

NOW_MS = ManualClock().now_ms()
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NAMES = (*USUAL, ORIGINAL)


def table_of(*bodies: bytes) -> pa.RecordBatch:
    count = len(bodies)
    return Columns(NAMES).table(Rows("t", "-", [f"{n}-0" for n in range(count)], [NOW_MS] * count, bodies))


def again(*bodies: bytes) -> list[bytes]:
    """Read as a table, and written."""
    return list(envelopes_of(table_of(*bodies), NOW_MS).bodies)


def table_with(*rows: dict[str, Any], names: tuple[str, ...] = ()) -> pa.RecordBatch:
    usual = {"id": "m", "source": "/s", "type": "t"}
    given = dict.fromkeys([*usual, *names, *(name for row in rows for name in row)])
    return pa.RecordBatch.from_pylist([usual | row for row in rows], schema=schema_of(tuple(given)))


def message(**attributes: Any) -> Message:
    return Message(**({"id": "m", "source": "/s", "type": "t"} | attributes))


ROUND = [
    message(),
    message(data=msgspec.Raw(b'{"b" : 1.50, "a":"\xc3\xbc", "c":[null,1e5]}')),
    message(data=msgspec.Raw(b"null")),
    message(data_base64=b""),
    message(data_base64=b"\x00\xff", datacontenttype="application/octet-stream"),
    message(time="2026-11-21T08:00:00.500Z", expirytime="2036-11-21T08:00:00.000Z"),
    message(hbusdue="2026-01-01T00:00:00.000Z"),
    message(subject='say "hi" \\ back', partitionkey="Zürich 予約", type="a.b"),
    message(subject="x" * 4_000, source="/" + "s" * 299, causationid="c" * 64, correlationid="d" * 128),
    message(extensions={"tenant": "acme", "hbusedited": "true"}),
    message(hbuspriority="high", hbusreplay="replay", hbustarget="desk", dataclassification="internal"),
    message(traceparent=TRACE, tracestate="a=b", sequence="7", dataschema="urn:x"),
]


@pytest.mark.parametrize("one", ROUND, ids=range(len(ROUND)))
def test_what_was_read_is_written_byte_for_byte(one: Message) -> None:
    assert again(encode(one)) == [encode(one)]


def test_all_kinds_stand_beside_each_other_in_one_table() -> None:
    assert again(*map(encode, ROUND)) == [encode(one) for one in ROUND]


def test_an_instant_is_kept_to_the_microsecond() -> None:
    bodies = [encode(message(time=text)) for text in ("2026-11-21T09:00:00.000001+01:00", "2026-11-21T08:00:00Z")]
    assert [decode(body).time for body in again(*bodies)] == [
        "2026-11-21T08:00:00.000001Z",
        "2026-11-21T08:00:00.000000Z",
    ]


def test_a_table_of_the_needed_columns_is_enough() -> None:
    found = envelopes_of(table_with({"id": "a"}, {"id": "b"}), NOW_MS)
    assert [decode(body) for body in found.bodies] == [message(id="a"), message(id="b")]
    assert (found.ids, found.partitionkeys, found.priorities) == (["a", "b"], [None, None], [None, None])


@pytest.mark.parametrize(
    ("row", "field", "why"),
    [
        ({"id": ""}, "id", "empty"),
        ({"id": None}, "id", "empty"),
        ({"id": "x" * 65}, "id", "longer than 64"),
        ({"source": None}, "source", "empty"),
        ({"partitionkey": "k" * 201}, "partitionkey", "longer than 200"),
        ({"subject": "a\x00b"}, "subject", r"U\+0000"),
        ({"traceparent": "00-1-2-3"}, "traceparent", "Trace Context"),
        ({"traceparent": TRACE.replace("b7ad6b7169203331", "0" * 16)}, "traceparent", "Trace Context"),
        ({"hbuspriority": "urgent"}, "hbuspriority", "not known"),
        ({"data": "{"}, "data", "not JSON"),
        ({"data": "1] ,[2"}, "data", "not JSON"),
        ({"data": "[" * 200 + "]" * 200}, "data", "nests deeper"),
        ({"data": "1", "data_base64": b"x"}, "data", "Both data and data_base64"),
        ({"extensions": {"Bad-Name": "x"}}, "Bad-Name", "not allowed"),
        ({"extensions": {"subject": "x"}}, "extensions", "an attribute that is none"),
        ({"extensions": {"tenant": None}}, "tenant", "no text"),
    ],
    ids=range(16),
)
def test_what_is_no_envelope_of_the_bus_is_refused_and_named(row: dict[str, Any], field: str, why: str) -> None:
    with pytest.raises(RowRefused, match=why) as refused:
        envelopes_of(table_with({"id": "before"}, row, {"id": "behind"}), NOW_MS)
    assert refused.value.field == field
    assert (row.get("id", "m") or "without id") in str(refused.value)


@pytest.mark.parametrize(
    ("name", "passes", "fails", "why"),
    [
        ("expirytime", NOW_MS + 1, NOW_MS, "it expired 2026-"),
        ("hbusdue", NOW_MS, NOW_MS + 1, "it is not due before 2026-"),
    ],
)
def test_what_is_not_for_now_is_refused(name: str, passes: int, fails: int, why: str) -> None:
    def at(ms: int) -> dict[str, Any]:
        return {name: datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)}

    assert len(envelopes_of(table_with(at(passes)), NOW_MS).bodies) == 1
    with pytest.raises(RowRefused, match=why):
        envelopes_of(table_with({"id": "a"}, at(fails)), NOW_MS)


def test_malformed_rows_are_refused_or_left_out() -> None:
    odd = b'{"specversion":"1.0","id":"c","source":"s","type":"t","time":"high noon"}'
    table = table_of(encode(message(id="a")), b"no json", odd, encode(message(id="b")))

    assert envelopes_of(with_malformed_left_out(table), NOW_MS).ids == ["a", "b"]
    with pytest.raises(RowRefused, match=r"at 1-0 .*it is malformed \(Not a CloudEvents"):
        refuse_malformed(table)
    with pytest.raises(RowRefused, match=r"The row c .*an instant of it is none"):
        refuse_malformed(table.slice(2))


def test_columns_that_are_missing_unknown_or_of_another_type_are_named() -> None:
    assert taken({name: spark_type_of(name) for name in ("id", "source", "type", "log", "position")}) == (
        *("id", "source", "type", "position"),
    )
    needed = dict.fromkeys(("id", "source", "type"), "string")
    for columns, field in (
        ({"id": "string", "source": "string"}, "type"),
        (needed | {"colour": "string"}, "colour"),
        (needed | {"time": "string"}, "time"),
    ):
        with pytest.raises(BadInput) as refused:
            taken(columns)
        assert refused.value.field == field
