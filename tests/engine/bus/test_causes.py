from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bus import causes


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("room 12 is full", "room 7 is full"),
        ("no hotel 'Algarve'", "no hotel 'Lisboa'"),
        ('key "a\\"b" missing', 'key "c" missing'),
        (
            "booking 01K9ABCDEFGHJKMNPQRSTVWXYZ lost",
            "booking 01M7XSNNN2DCGX4XVGXH9633TR lost",
        ),
        (
            "request 7f9c24e8-3b12-4d6f-9a01-5c2e7d8b4f10 failed",
            "request 0b9c24e8-3b12-4d6f-9a01-5c2e7d8b4fff failed",
        ),
        ("object at 0x7f00 broke", "object at 0xffee broke"),
        ("digest deadbeef01 differs", "digest 0123456789 differs"),
        ("took 1,204.5 ms", "took 3 ms"),
        ("line one\n  two", "line  one two"),
    ],
)
def test_cases_of_one_cause_share_a_fingerprint(one: str, other: str) -> None:
    assert causes.fingerprint("g", "ValueError", one) == causes.fingerprint("g", "ValueError", other)


def test_other_causes_classes_and_groups_have_other_fingerprints() -> None:
    prints = {
        causes.fingerprint("g", "ValueError", "room is full"),
        causes.fingerprint("g", "ValueError", "room is closed"),
        causes.fingerprint("g", "KeyError", "room is full"),
        causes.fingerprint("h", "ValueError", "room is full"),
    }
    assert len(prints) == 4
    assert all(len(text) == 16 for text in prints)


def test_an_apostrophe_is_no_quote() -> None:
    assert causes.normalise("can't open 'x' or 'y'") == "can't open … or …"


def test_a_cause_reads_well_without_a_message() -> None:
    assert causes.cause_of("TimeoutError", "") == "TimeoutError"
    assert causes.cause_of("ValueError", "room 5") == "ValueError: room #"


def test_normalising_is_bounded() -> None:
    assert len(causes.normalise("word " * 100_000)) <= causes.CAUSE_LIMIT


@given(
    st.lists(
        st.one_of(
            st.sampled_from(["room code", " ", "\n", "'a'", '"b c"', "`x`", "'", '"', "12", "1,5", "0xff",
                             "deadbeef01", "01K9ABCDEFGHJKMNPQRSTVWXYZ",
                             "7f9c24e8-3b12-4d6f-9a01-5c2e7d8b4f10", "…", "#", "_", "\\"]),
            st.text(max_size=5),
        ),
        max_size=200,
    ).map("".join)
)  # fmt: skip
def test_what_is_taken_apart_is_what_is_normalised(message: str) -> None:
    saying = causes.take_apart(message)
    assert saying.normalised == causes.normalise(message)
    assert len(saying.words) == len(saying.variables) + 1


def test_a_line_of_a_message_is_the_beginning_of_its_cause() -> None:
    message = "room code 'Z' is unknown\n  asked 3 times"
    assert causes.normalise(message).startswith(causes.take_apart(message.partition("\n")[0]).normalised)


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ('room code "DBL-SEA" is not in the partner\'s catalogue', [("room code", "DBL-SEA")]),
        ("'DBL-SEA'", [("", "DBL-SEA")]),
        ("no answer within 2 s at 10.0.0.1:99", [("no answer within", "2"), ("at", "10.0.0.1:99")]),
        ("refused: hotel=17, reason 'closed'", [("hotel", "17"), ("reason", "closed")]),
        ("the partner is away", []),
    ],
)
def test_what_varies_is_named_by_the_words_before_it(message: str, found: list[tuple[str, str]]) -> None:
    assert [(each.name, each.value) for each in causes.take_apart(message).variables] == found


def test_a_message_is_said_again_with_what_is_known() -> None:
    saying = causes.take_apart("room  'Z' is full\non 3 days")
    assert saying.said(["'Z'", "#"]) == "room 'Z' is full on # days"
