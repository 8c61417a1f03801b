from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bus import causes
from engine.bus.dead import normalise


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
    assert saying.normalised == normalise(message)
    assert len(saying.words) == len(saying.variables) + 1


def test_a_line_of_a_message_is_the_beginning_of_its_cause() -> None:
    message = "room code 'Z' is unknown\n  asked 3 times"
    assert normalise(message).startswith(causes.take_apart(message.partition("\n")[0]).normalised)


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
