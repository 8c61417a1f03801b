"""What is JSON to every reader, and what is not: the one place where that is judged."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import msgspec
import pytest

from engine.bus.building import BatchItem, EnvelopeBuilder, Prepared
from engine.bus.catalog import TopicPolicy
from engine.bus.errors import PublishRefused
from engine.bus.filters.judging import compile_filter
from engine.bus.message import Message
from engine.core.strict_json import MOST_VALUES, NotJson, check_storable, read_json, read_typed, why_no_json
from tests.engine.bus.hostile_payloads import FINE, HOSTILE, hostile_message

BUILDER = EnvelopeBuilder(TopicPolicy("a", "team"), source="/test", now_ms=1_790_000_000_000)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_way_in_takes_it(text: bytes) -> None:
    with pytest.raises(NotJson):
        read_json(text)
    raw = hostile_message("m", text).data
    for item, field in ((BatchItem(raw), "payload"), (BatchItem(body=text, content_type="application/json"), "body")):
        with pytest.raises(PublishRefused) as refused:
            BUILDER.message(item)
        assert refused.value.field == field
        assert refused.value.remedy
        # Behind another one of the same options it takes the short way.
        one, other, last = BUILDER.prepare([BatchItem(1), item, BatchItem(2)])
        assert isinstance(other, PublishRefused)
        assert isinstance(one, Prepared)
        assert isinstance(last, Prepared)


@pytest.mark.parametrize("text", FINE.values(), ids=FINE.keys())
def test_what_is_only_odd_is_kept_byte_for_byte(text: bytes) -> None:
    raw = hostile_message("m", text).data
    assert BUILDER.message(BatchItem(raw)).payload() == text
    for one in BUILDER.prepare([BatchItem(1), BatchItem(raw)]):
        assert isinstance(one, Prepared)


def test_no_text_at_all_is_no_payload_also_behind_another() -> None:
    raw = Message(id="m", source="/s", type="t").data
    for one in BUILDER.prepare([BatchItem(1), BatchItem(raw)])[1:]:
        assert isinstance(one, Prepared)
        assert b'"data"' not in one.outgoing.body


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("words", ["payload.n > 1", "payload == null", 'payload contains "a"', "exists(payload.data)"])
def test_a_filter_finds_no_field_in_it(text: bytes, words: str) -> None:
    assert not compile_filter(words).matches(hostile_message("m", text))
    assert compile_filter(f"not ({words})").matches(hostile_message("m", text))


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("{\n  1}", "line 2, column 3"),
        ("NaN", "NaN is no JSON"),
        ("1e999", "range"),
        ("9" * 5_000, "range"),
        ('"\\ud800"', "."),
        ('"\ud800"', "utf-8"),
        ("[" * 200 + "]" * 200, "deeper"),
        ("[" * 100_000, "deeper"),
    ],
)
def test_what_a_person_typed_is_judged_likewise(typed: str, said: str) -> None:
    with pytest.raises(NotJson, match=said):
        read_typed(typed)
    assert read_typed('{"a": [1, 2.5, "é"]}') == {"a": [1, 2.5, "é"]}


def endless() -> list[object]:
    made: list[object] = []
    made.append(made)
    return made


def doubled(times: int) -> object:
    """As aliases of YAML are."""
    made: object = 1
    for _ in range(times):
        made = [made, made]
    return made


UNLIKE_JSON = {
    "a date": ({"when": date(2026, 1, 1)}, "when is a date, which JSON does not have: write it as text, in quotes"),
    "a time": ({"a": [1, {"b": datetime(2026, 1, 1, tzinfo=UTC)}]}, "a\\[1\\].b is a datetime"),
    "no number": ({"a": float("nan")}, "a is nan, which is no number of JSON"),
    "infinity": ([float("-inf")], "\\[0\\] is -inf"),
    "a set": ({"a": {1, 2}}, "a is a set"),
    "bytes": ({"a": b"x"}, "a is a bytes"),
    "a decimal": (Decimal(1), "it is a Decimal"),
    "a name that is a number": ({"a": {1: "b"}}, "a has the name 1, and names are texts"),
    "NUL": ({"a": "x\0y"}, "a holds the character U\\+0000, which no database keeps"),
    "NUL in a name": ({"a": {"x\0": 1}}, "a name in a holds the character U\\+0000"),
    "half a character": ({"a": ["\ud800"]}, "a\\[0\\] holds the character U\\+D800"),
    "very many digits": ({"a": 10**4_300}, "a has more digits"),
    "itself": (endless(), "deeper than"),
    "more than there is room for": (doubled(60), f"more than {MOST_VALUES:,} values"),
}


@pytest.mark.parametrize(("value", "said"), UNLIKE_JSON.values(), ids=UNLIKE_JSON.keys())
def test_of_what_is_no_json_or_can_be_kept_nowhere_the_place_is_said(value: object, said: str) -> None:
    with pytest.raises(NotJson, match=said):
        check_storable(value)


def test_all_that_json_has_may_be_kept() -> None:
    check_storable({"a": [1, 2.5, True, None, "é 🏨\n", 10**400, {"": ()}]})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "it is empty"),
        (b" ", "it is empty"),
        (b'{"data":"\\ud800"}', "a text in it holds half of a surrogate pair, which UTF-8 cannot say"),
        (b'{"data":NaN}', "NaN is no JSON, but null or a number is"),
        (b'{"delay_s":Infinity}', "Infinity is no JSON, but null or a number is"),
        (b'{"delay_s":[-Infinity]}', "-Infinity is no JSON, but null or a number is"),
        (b'{"data":1e999}', "Number out of range"),
        pytest.param(b'\xef\xbb\xbf{"data":1}', "JSON is malformed", id="a byte order mark"),
        pytest.param('{"data":1}'.encode("utf-16"), "JSON is malformed", id="UTF-16"),
        (b'{"data":', "Input data was truncated"),
        (b'{"data":1', "Input data was truncated"),
        (b"[" * 100_000, ""),
    ],
)
def test_why_it_is_none_is_said_as_it_is(text: bytes, why: str) -> None:
    with pytest.raises((msgspec.MsgspecError, RecursionError)) as failed:
        msgspec.json.decode(text)
    assert why in why_no_json(text, failed.value)
