from __future__ import annotations

import json

import msgspec
import pytest

from engine.bus.errors import MalformedEnvelope
from engine.bus.message import Message, decode, encode


def _foreign(**attributes: object) -> bytes:
    return json.dumps({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **attributes}).encode()


def test_a_message_comes_back_as_it_was() -> None:
    message = Message(
        id="1", source="/s", type="t", partitionkey="k", data=msgspec.Raw(b'{"a": 1.50}'), extensions={"tenant": "ä☃"}
    )
    again = decode(encode(message))
    assert again.payload() == b'{"a": 1.50}'
    assert (again.partitionkey, again.extensions) == ("k", {"tenant": "ä☃"})
    assert encode(again) == encode(message)


def test_bytes_travel_as_base64() -> None:
    message = Message(id="1", source="/s", type="t", data_base64=b"\x00\xff")
    assert json.loads(encode(message))["data_base64"] == "AP8="
    assert decode(encode(message)).payload() == b"\x00\xff"
    with pytest.raises(TypeError, match="carries bytes"):
        message.json()


def test_foreign_attributes_survive_re_encoding_byte_for_byte() -> None:
    body = _foreign(tenant="acmé", shard="007", data={"x": [1, 2.50]})
    again = json.loads(encode(msgspec.structs.replace(decode(body), id="2")))
    assert again == {**json.loads(body), "id": "2"}


def test_whole_numbers_and_booleans_become_their_canonical_text() -> None:
    assert decode(_foreign(n=-5, yes=True, no=False)).extensions == {"n": "-5", "yes": "true", "no": "false"}


@pytest.mark.parametrize("name", ["Tenant", "a_b", "x" * 21, "_extensions"])
def test_an_attribute_name_outside_the_standard_is_refused_by_name(name: str) -> None:
    with pytest.raises(MalformedEnvelope) as refused:
        decode(_foreign(**{name: {} if name != "_extensions" else {"a": "b"}}))
    assert refused.value.field == name


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", ""),
        (b"[]", ""),
        (b'{"specversion":"1.0","id":"1","type":"t"}', "source"),
        (b'{"specversion":"0.3","id":"1","source":"s","type":"t"}', "specversion"),
        (b'{"specversion":"1.0","id":5,"source":"s","type":"t"}', "id"),
        (b'{"specversion":"1.0","id":"1","source":"s","type":"t","tenant":[1],"ok":"1"}', "tenant"),
        (b'{"specversion":"1.0","id":5,"source":"s","type":"t","tenant":"x"}', "id"),
        (b'{"specversion":"1.0","id":"\xff","source":"s","type":"t"}', ""),
    ],
)
def test_what_is_no_cloudevent_is_refused_naming_the_attribute(body: bytes, field: str) -> None:
    with pytest.raises(MalformedEnvelope) as refused:
        decode(body)
    assert refused.value.field == field
