from __future__ import annotations

import math
import threading

import pytest

from engine.core.clock import ManualClock
from engine.core.pacing import Pace, Together, all_go


class Waits(ManualClock):
    """A clock that moves on by itself when somebody waits, and remembers for how long."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waited.append(round(seconds, 6))
        self.advance(seconds)
        return event.is_set()


def admitted(pace: Pace, clock: Waits, *counts: int) -> list[float]:
    clock.waited.clear()
    for count in counts:
        pace.admit(count, threading.Event())
    return clock.waited


def test_the_first_goes_at_once_and_the_others_at_the_rate() -> None:
    clock = Waits()
    assert admitted(Pace(10, clock), clock, 1, 1, 5, 1) == [0.1, 0.1, 0.5]


def test_what_was_not_asked_for_is_not_made_up_for_without_a_burst() -> None:
    clock = Waits()
    pace = Pace(10, clock)
    pace.admit(1, threading.Event())
    clock.advance(60)
    assert admitted(pace, clock, 1, 1) == [0.1]


def test_a_schedule_is_caught_up_with_when_the_burst_has_no_end() -> None:
    clock = Waits()
    pace = Pace(10, clock, burst_s=math.inf)
    clock.advance(0.35)
    assert admitted(pace, clock, 1, 1, 1, 1, 1) == [0.05]


def test_a_burst_lets_so_many_seconds_go_together() -> None:
    clock = ManualClock()
    pace = Pace(4, clock, burst_s=2)
    assert pace.room() == 1
    clock.advance(0.5)
    assert pace.room() == 3
    clock.advance(60)
    assert pace.room() == 8
    pace.spend(8)
    assert pace.room() == 0
    clock.advance(0.25)
    assert pace.room() == 1


def test_a_burst_shorter_than_one_still_lets_one_go() -> None:
    clock = ManualClock()
    pace = Pace(0.1, clock, burst_s=1)
    assert pace.room() == 1
    pace.spend(1)
    clock.advance(9.5)
    assert pace.room() == 0
    clock.advance(0.5)
    assert pace.room() == 1
    clock.advance(100)
    assert pace.room() == 1


def test_more_than_there_was_room_for_is_paid_back() -> None:
    clock = ManualClock()
    pace = Pace(10, clock, burst_s=1)
    pace.spend(21)
    clock.advance(2.0)
    assert pace.room() == 0
    clock.advance(0.1)
    assert pace.room() == 1


@pytest.mark.parametrize("rate", [3, 7, 100, 333, 9_999])
def test_a_long_run_loses_none(rate: int) -> None:
    clock = ManualClock()
    pace, gone = Pace(rate, clock, burst_s=1), 0
    for _ in range(40):
        room = pace.room()
        pace.spend(room)
        gone += room
        clock.advance(0.25)
    assert abs(gone - (1 + rate * 9.75)) <= 1


def test_who_is_told_to_stop_waits_no_longer() -> None:
    clock, stop = ManualClock(), threading.Event()
    pace = Pace(0.001, clock)
    pace.admit(1, stop)
    stop.set()
    pace.admit(1, stop)


class _Purse:
    """So many may go, and no more come in until somebody has waited."""

    why = "the purse is empty"
    holds = True

    def __init__(self, left: int, brings: int = 0) -> None:
        self.left, self.brings = left, brings

    def take(self, most: int) -> int:
        got = min(most, self.left)
        self.left -= got
        return got

    def give_back(self, count: int) -> None:
        self.left += count

    def again_s(self) -> float:
        self.left += self.brings
        return 0.5


def test_what_is_taken_of_a_pace_is_spent_and_what_comes_back_is_not() -> None:
    clock = ManualClock()
    pace = Pace(10, clock, burst_s=1)
    clock.advance(10)
    assert (pace.take(4), pace.take(100), pace.take(1)) == (4, 6, 0)
    assert pace.again_s() == pytest.approx(0.1)
    pace.give_back(3)
    assert (pace.take(100), pace.why, pace.holds) == (3, "", True)


def test_together_as_many_go_as_all_let_go_and_the_rest_goes_back() -> None:
    wide, narrow, never = _Purse(10), _Purse(3), _Purse(0)
    both = Together([wide, narrow])
    assert (both.take(8), wide.left, narrow.left) == (3, 7, 0)
    both.give_back(2)
    assert (wide.left, narrow.left) == (9, 2)
    none = Together([wide, never, narrow])
    assert (none.take(8), wide.left, narrow.left) == (0, 9, 2)
    assert (none.why, none.again_s(), none.holds) == ("the purse is empty", 0.5, True)
    assert (Together([]).take(5), Together([]).why, Together([]).again_s(), Together([]).holds) == (5, "", 0.0, False)


def test_all_go_part_after_part_and_a_stop_gives_back_what_was_had() -> None:
    clock, stop = Waits(), threading.Event()
    assert all_go(_Purse(4, brings=3), 10, clock, stop)
    assert clock.waited == [0.5, 0.5]
    stop.set()
    purse = _Purse(4)
    assert not all_go(purse, 10, clock, stop)
    assert purse.left == 4
