from __future__ import annotations

import pytest

from engine.core import ids

GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_traceparent_is_taken_apart_and_put_together() -> None:
    parent = ids.parse_traceparent(GOOD)
    assert parent is not None
    assert parent == ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "01")
    assert str(parent) == GOOD


def test_a_child_keeps_trace_and_flags_and_has_its_own_span() -> None:
    parent = ids.TraceParent("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "00")
    child = parent.child()
    assert (child.trace_id, child.flags) == (parent.trace_id, "00")
    assert child.span_id != parent.span_id
    assert ids.parse_traceparent(str(child)) == child


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00-abc",
        GOOD.upper(),
        GOOD + "-more",
        "ff" + GOOD[2:],
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
    ],
)
def test_what_the_standard_says_to_ignore_is_none(text: str) -> None:
    assert ids.parse_traceparent(text) is None


def test_a_later_version_may_carry_more() -> None:
    assert ids.parse_traceparent("01" + GOOD[2:] + "-later") is not None


def test_new_ones_are_valid_and_differ() -> None:
    made = {*ids.new_traceparents(100), *ids.new_traceparents(1)} | {str(ids.new_trace()) for _ in range(100)}
    assert len(made) == 201
    assert all(ids.parse_traceparent(text) for text in made)


def test_the_trace_id_of_a_malformed_one_is_empty() -> None:
    assert ids.trace_id_of(GOOD) == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert ids.trace_id_of("rubbish") == ""
