"""What a publish request may look like, and how each fault is named."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from engine.bus.transport import Priority
from engine.core.errors import BadInput, HbusError
from hbus_console.publishing.envelopes import CLOUDEVENT, CLOUDEVENT_BATCH, Parsed, parse_batch, parse_one

DEFAULTS = {"correlation_id": "req-1", "traceparent": ""}


def one(**body: Any) -> Parsed:
    return parse_one("application/json", json.dumps(body).encode(), DEFAULTS)


def event(**attributes: Any) -> bytes:
    return json.dumps({"specversion": "1.0", "id": "e1", "source": "/pms", "type": "t", **attributes}).encode()


def test_a_payload_keeps_its_bytes() -> None:
    parsed = parse_one("application/json", b'{"data": {"rate": 1.10}}', DEFAULTS)
    assert isinstance(parsed.payload, msgspec.Raw)
    assert bytes(parsed.payload) == b'{"rate": 1.10}'


def test_options_are_taken_over() -> None:
    parsed = one(
        data=1, type="t", key="k", headers={"tenant": "ü"}, due="2026-12-01T00:00:00+01:00", priority="high", ttl_s=5
    )
    assert parsed.options.key == "k"
    assert parsed.options.headers == {"tenant": "ü"}
    assert parsed.options.due == datetime(2026, 11, 30, 23, tzinfo=UTC)
    assert parsed.options.priority is Priority.HIGH
    assert parsed.options.ttl_s == 5
    assert parsed.options.correlation_id == "req-1"


def test_null_is_a_payload() -> None:
    assert bytes(one(data=None).payload) == b"null"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "data"),
        ({"data": 1, "data_base64": "AA=="}, "data"),
        ({"data_base64": "not base64!"}, "data_base64"),
        ({"data": 1, "headers": {"tenant": 7}}, "headers.tenant"),
        ({"data": 1, "due": "tomorrow"}, "due"),
        ({"data": 1, "due": "2026-12-01T00:00:00"}, "due"),
        ({"data": 1, "priority": "urgent"}, "priority"),
        ({"data": 1, "delay": 5}, "delay"),
        ({"data": 1, "time": "noon"}, "time"),
    ],
)
def test_each_fault_names_its_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        one(**body)
    assert refused.value.field == field
    assert refused.value.remedy


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[]", b'"text"'])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadInput):
        parse_one("application/json", body, DEFAULTS)


def test_a_cloudevent_brings_its_identity_which_is_its_idempotency_key() -> None:
    parsed = parse_one(
        CLOUDEVENT, event(partitionkey="k", tenant="x", data={"a": 1}, time="2026-01-01T00:00:00Z"), DEFAULTS
    )
    assert (parsed.options.message_id, parsed.options.source) == ("e1", "/pms")
    assert parsed.options.idempotency_key == "/pms e1"
    assert parsed.options.key == "k"
    assert parsed.options.headers == {"tenant": "x"}
    assert bytes(parsed.payload) == b'{"a": 1}'


@pytest.mark.parametrize(
    ("said", "content_type", "body"),
    [
        ({"data": {"a": 1}, "datacontenttype": "application/vnd.x+json"}, "application/vnd.x+json", b'{"a": 1}'),
        ({"data": "<a/>", "datacontenttype": "text/xml"}, "text/xml", b"<a/>"),
        ({"data_base64": "/wA=", "datacontenttype": "image/png"}, "image/png", b"\xff\x00"),
        ({"data_base64": "/wA="}, "application/octet-stream", b"\xff\x00"),
    ],
    ids=["other JSON", "text", "bytes", "bytes of no type"],
)
def test_a_cloudevent_keeps_the_type_of_its_data(said: dict[str, Any], content_type: str, body: bytes) -> None:
    parsed = parse_one(CLOUDEVENT, event(**said), DEFAULTS)
    assert (parsed.content_type, parsed.body) == (content_type, body)


def test_a_header_key_names_each_message_of_a_batch_that_has_none() -> None:
    keyed = {**DEFAULTS, "idempotency_key": "request:1", "idempotency_at_least_s": "60"}
    body = b'{"messages": [{"data": 1}, {"data": 2, "idempotency_key": "mine"}, {"data": 3}]}'
    options = [item.options for item in parse_batch("application/json", body, keyed) if isinstance(item, Parsed)]
    assert [each.idempotency_key for each in options] == ["request:1:0", "mine", "request:1:2"]
    assert {each.idempotency_at_least_s for each in options} == {60}


@pytest.mark.parametrize(
    ("attributes", "field"),
    [
        ({"specversion": "0.3"}, "specversion"),
        ({"hbuspriority": "urgent"}, "hbuspriority"),
        ({"Bad-Name": "x"}, "Bad-Name"),
        ({"hbusreplay": "redrive"}, "hbusreplay"),
        ({"hbustarget": "billing"}, "hbustarget"),
        ({"hbusedited": "true"}, "hbusedited"),
        ({"hbusnew": "x"}, "hbusnew"),
        ({"id": ""}, "id"),
        ({"source": ""}, "source"),
        ({"type": ""}, "type"),
        ({"traceparent": "00-nonsense"}, "traceparent"),
        ({"data": {"a": 1}, "datacontenttype": "text/xml"}, "datacontenttype"),
        ({"datacontenttype": "text/xml"}, "datacontenttype"),
        ({"data": 1, "data_base64": "AA=="}, "data"),
    ],
)
def test_a_malformed_cloudevent_names_the_attribute(attributes: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_one(CLOUDEVENT, event(**attributes), DEFAULTS)
    assert refused.value.field == field


def test_a_batch_keeps_the_place_of_what_cannot_be_read() -> None:
    items = parse_batch("application/json", b'{"messages": [{"data": 1}, {"nope": 1}, {"data": 2}]}', DEFAULTS)
    assert [isinstance(item, HbusError) for item in items] == [False, True, False]


def test_a_batch_of_cloudevents() -> None:
    items = parse_batch(CLOUDEVENT_BATCH, b"[" + event() + b"]", DEFAULTS)
    assert isinstance(items[0], Parsed)


@pytest.mark.parametrize("count", [0, 1001])
def test_a_batch_has_a_size(count: int) -> None:
    with pytest.raises(BadInput) as refused:
        parse_batch("application/json", json.dumps({"messages": [{"data": 1}] * count}).encode(), DEFAULTS)
    assert refused.value.field == "messages"
