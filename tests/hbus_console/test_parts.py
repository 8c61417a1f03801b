"""One part's fault: the others go on, and it is told at the end."""

from __future__ import annotations

import pytest

from engine.core.clock import ManualClock
from engine.core.errors import BadInput, Unavailable
from hbus_console.parts import LONG_S, Parts, PartsFailed


def fail(error: Exception) -> object:
    raise error


def test_all_parts_are_done_and_nothing_is_told_of_those_that_were() -> None:
    parts = Parts()
    assert [parts.do(name, lambda number=number: number) for number, name in enumerate("abc")] == [0, 1, 2]  # type: ignore[misc]
    parts.tell()


def test_what_failed_is_told_at_the_end_by_name() -> None:
    parts = Parts("{parts} could not be looked at")
    assert parts.do("a", lambda: fail(Unavailable("No answer.", remedy="Wait."))) is None
    assert parts.do("b", lambda: 7) == 7
    with pytest.raises(Unavailable, match=r"^a could not be looked at: No answer\.$"):
        parts.tell()


def test_a_mistake_is_told_before_somebody_who_is_away_and_is_the_cause() -> None:
    parts = Parts("{parts} could not be looked at")
    mistake = KeyError("n")
    parts.do("a", lambda: fail(Unavailable("No answer.")))
    parts.do("b", lambda: fail(mistake))
    parts.do("c", lambda: fail(BadInput("No.")))
    parts.do("d", lambda: fail(BadInput("No.")))
    with pytest.raises(PartsFailed, match=r"^b, a, c and 1 more could not be looked at: KeyError: 'n'$") as told:
        parts.tell()
    assert told.value.__cause__ is mistake


def test_an_error_that_is_everybodys_is_raised_at_once() -> None:
    parts = Parts(through=(OSError,))
    with pytest.raises(OSError, match="no route"):
        parts.do("a", lambda: fail(OSError("no route")))


def test_who_hangs_is_waited_for_once_and_who_refuses_at_once_is_asked_by_each() -> None:
    clock = ManualClock()
    parts = Parts(clock=clock)
    asked: list[str] = []

    def away(name: str, takes_s: float) -> None:
        asked.append(name)
        clock.advance(takes_s)
        raise Unavailable(f"{name} does not answer.")

    for name in ("a", "b"):
        parts.do(name, lambda name=name: away(name, 0.1), on="quick")  # type: ignore[misc]
    for name in ("c", "d"):
        parts.do(name, lambda name=name: away(name, LONG_S), on="hanging")  # type: ignore[misc]
    assert parts.do("e", lambda: 1, on="other") == 1
    assert asked == ["a", "b", "c"]
    assert [fault.part for fault in parts.faults] == ["a", "b", "c", "d"]
