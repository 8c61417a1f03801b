from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bus.filters import FilterError, compile_filter
from engine.bus.filters.parsing import DEEPEST, MOST_NODES
from engine.bus.message import Message

MESSAGE = Message(
    id="01K9",
    source="/hotels/reservations-api",
    type="booking.cancelled",
    time="2026-11-20T14:31:07.882Z",
    partitionkey="H-1204",
    correlationid="req-1",
    data=msgspec.Raw(
        msgspec.json.encode(
            {
                "hotel": "Resort Hotel",
                "lead_time": 120,
                "rate": 99.5,
                "guest": {"country": "PRT", "vip": True, "note": None},
                "rooms": [{"type": "DBL"}, {"type": "SGL"}],
                "tags": ["late", "group"],
                "odd name": 1,
            }
        )
    ),
    extensions={"tenant": "lisbon"},
)

HOLDS = [
    'type == "booking.cancelled"',
    "type == 'booking.cancelled'",
    'payload.hotel == "Resort Hotel" and payload.lead_time > 100',
    'key in ["a", "H-1204"]',
    "payload.lead_time in [1, 120]",
    'payload.guest.country != "ESP"',
    'time >= "2026-11-20T14:31:07Z" and time < "2026-11-21T00:00:00+01:00"',
    "exists(payload.guest.note)",
    "payload.guest.note == null",
    "not exists(payload.guest.age)",
    'payload.hotel contains "sort"',
    'payload.tags contains "late"',
    'source startswith "/hotels" and source endswith "api"',
    'payload.rooms[1].type == "SGL"',
    'headers.tenant == "lisbon"',
    "payload.guest.vip == true",
    "payload.guest.vip",
    "payload.rate <= 99.5 and payload.rate > -1e3",
    'priority == "normal"',
    'type == "x" or (type == "y" or payload.lead_time == 120) and not payload.rate == 1',
    'payload."odd name" == 1',
    "true",
]
DOES_NOT = [
    'type == "booking.created"',
    # What is missing matches nothing, whichever way one asks
    "payload.guest.age > 3",
    "payload.guest.age != 3",
    "payload.guest.age == null",
    "payload.guest.country.x == 1",
    "payload.rooms[7].type == 'SGL'",
    "payload.rooms.type == 'SGL'",
    "headers.absent != 'x'",
    "causationid == ''",
    # Kinds are not mixed
    'payload.lead_time == "120"',
    'payload.lead_time > "100"',
    "payload.guest.vip == 1",
    "payload.guest.vip > 0",
    "payload.tags contains 'LATE'",
    "payload.lead_time",
    "false",
    'not type == "booking.cancelled"',
]
REFUSED = [
    ("", 0),
    ("   ", 0),
    ("type ==", 7),
    ('type = "a"', 5),
    ('typ == "a"', 0),
    ('type == "a" and', 15),
    ('type == "a" "b"', 12),
    ('(type == "a"', 12),
    ("payload..x == 1", 8),
    ("payload[-1] == 1", 8),
    ("payload[x] == 1", 8),
    ("type.x == 1", 0),
    ("headers == 1", 0),
    ('key in "a"', 4),
    ("key == [1]", 4),
    ("key in [payload.x]", 8),
    ("exists(1)", 7),
    ("__import__('os')", 0),
    ("payload.x == 1e999", 13),
    ('type == "unended', 8),
    ('type == "\\q"', 8),
    ("; drop", 0),
]


@pytest.mark.parametrize("text", HOLDS)
def test_it_chooses(text: str) -> None:
    assert compile_filter(text).matches(MESSAGE)


@pytest.mark.parametrize("text", DOES_NOT)
def test_it_leaves(text: str) -> None:
    assert not compile_filter(text).matches(MESSAGE)


@pytest.mark.parametrize(("text", "at"), REFUSED)
def test_what_cannot_be_read_is_refused_at_its_place(text: str, at: int) -> None:
    with pytest.raises(FilterError) as refused:
        compile_filter(text)
    assert refused.value.at == at
    assert refused.value.field == "filter"
    assert f"at character {at + 1}" in str(refused.value)


def test_an_instant_that_is_none_is_refused() -> None:
    with pytest.raises(FilterError, match="is no instant"):
        compile_filter('time > "yesterday"')


@pytest.mark.parametrize(
    "text",
    [
        "(" * (DEEPEST + 1) + "true" + ")" * (DEEPEST + 1),
        "not " * (DEEPEST + 1) + "true",
        " or ".join(["true"] * (MOST_NODES + 1)),
        "key in [" + ",".join(["1"] * 101) + "]",
        "payload.x == '" + "x" * 2_000 + "'",
    ],
)
def test_it_is_bounded(text: str) -> None:
    with pytest.raises(FilterError):
        compile_filter(text)


def test_bytes_and_unreadable_times_match_nothing() -> None:
    binary = Message(id="1", source="/s", type="t", data_base64=b"x", expirytime="never")
    for text in ("payload.x == 1", "exists(payload)", 'expirytime > "2026-01-01T00:00:00Z"'):
        assert not compile_filter(text).matches(binary)


def test_it_tells_which_payload_fields_it_looks_at() -> None:
    chosen = compile_filter("payload.guest.name == 'a' or exists(payload.rooms[0].type) or not key == payload.x")
    assert chosen.payload_fields == ("guest.name", "rooms.type", "x")
    assert compile_filter("payload == null").payload_fields == ("",)
    odd = compile_filter(
        'payload."a.b" == 1 or payload.\'first name\'[0].c == 2 or payload."" == 3 or payload."d" == 4'
    )
    assert odd.payload_fields == ('""', '"a.b"', '"first name".c', "d")
    assert compile_filter("type == 'a'").payload_fields == ()


SAID = "type payload key headers exists and or not in == != < > ( ) [ ] , . 'b' 1 -2.5 true null x $ \\"
WORDS = st.sampled_from(SAID.split())


@given(st.lists(WORDS, max_size=30).map(" ".join) | st.text(max_size=60))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    try:
        chosen = compile_filter(text)
    except FilterError:
        return
    assert chosen.matches(MESSAGE) in (True, False)


def test_every_example_of_the_reference_can_be_read() -> None:
    reference = (Path(__file__).parents[4] / "docs" / "filters.md").read_text(encoding="utf-8")
    examples = [line for block in reference.split("```")[1::2] for line in block.strip().splitlines()]
    assert len(examples) >= 10
    for example in examples:
        compile_filter(example)
