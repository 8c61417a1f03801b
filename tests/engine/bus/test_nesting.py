"""How deep a payload may nest, at every way into a topic."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from engine.bus.building import BatchItem, EnvelopeBuilder, Prepared
from engine.bus.catalog import TopicPolicy
from engine.bus.errors import MalformedEnvelope, PublishRefused
from engine.bus.message import decode
from engine.core.nesting import DEEPEST, too_deep


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"in": value, "flat": [level]}
    return value


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("[" * DEEPEST + "]" * DEEPEST, False),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), True),
        ('{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1), True),
        (json.dumps([[]] * 10_000), False),
        (json.dumps(["[" * 10_000, '\\"[' * 1_000, "\\"]), False),
        # What closes inside of texts closes nothing.
        ('{"]]\\\\\\"}}":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1), True),
        ("[" * 100_000 + "]" * 100_000, True),
        ("1", False),
        ("", False),
    ],
)
def test_lists_and_objects_in_one_another_are_counted(text: str, deep: bool) -> None:
    assert too_deep(text.encode()) is deep


@pytest.mark.parametrize(
    "item",
    [
        BatchItem(nested(DEEPEST + 1)),
        BatchItem(msgspec.Raw(json.dumps(nested(DEEPEST + 1)).encode())),
        BatchItem(body=json.dumps(nested(DEEPEST + 1)).encode(), content_type="application/json"),
        BatchItem(body=b"[" * 100_000, content_type="application/json"),
    ],
    ids=["values", "text", "bytes of JSON", "without end"],
)
def test_no_way_in_takes_a_payload_that_nests_too_deep(item: BatchItem) -> None:
    builder = EnvelopeBuilder(TopicPolicy("booking.created", "inventory"), source="/test", now_ms=1_790_000_000_000)
    with pytest.raises(PublishRefused, match=f"deeper than {DEEPEST} levels"):
        builder.message(item)
    # The second of one batch takes the short way.
    fine = BatchItem(nested(DEEPEST - 1))
    one, other, last = builder.prepare([fine, item, fine])
    assert isinstance(one, Prepared)
    assert isinstance(other, PublishRefused)
    assert isinstance(last, Prepared)
    one, other = builder.prepare([fine, item])
    assert isinstance(other, PublishRefused)


def test_bytes_that_are_no_json_are_nobodys_to_walk_over() -> None:
    builder = EnvelopeBuilder(TopicPolicy("booking.created", "inventory"), source="/test", now_ms=1_790_000_000_000)
    assert builder.message(BatchItem(body=b"[" * 1_000, content_type="text/plain")).payload() == b"[" * 1_000


@pytest.mark.parametrize("member", ["data", "tenant"])
def test_an_envelope_nested_without_end_is_malformed(member: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(MalformedEnvelope):
        decode(b'{"specversion":"1.0","id":"1","source":"/s","type":"t","' + member.encode() + b'":' + deep + b"}")
