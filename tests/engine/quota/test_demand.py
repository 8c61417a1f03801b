"""How much is asked: what comes once, what comes all the time, and a flood."""

from __future__ import annotations

import pytest

from engine.quota.demand import LEAST_S, Demand


def test_one_request_is_no_flood() -> None:
    demand = Demand(0.0)
    demand.add(1)
    assert demand.look(0.001) == pytest.approx(0.5 / LEAST_S)
    assert demand.steady == 0
    assert demand.look(1.0) <= 1


def test_a_flood_is_seen_at_once_and_known_soon() -> None:
    demand, seen = Demand(0.0), list[float]()
    for number in range(1, 41):
        demand.add(10)
        seen.append(demand.look(number * 0.01))
    assert seen[3] >= 400, "a twentieth of a second tells half of it"
    assert seen[-1] == pytest.approx(1_000, rel=0.1)


def test_who_looks_often_sees_no_less() -> None:
    often, seldom = Demand(0.0), Demand(0.0)
    for number in range(1, 2_001):
        for each in (often, seldom):
            each.add(1)
        often.look(number / 1_000)
        if number % 200 == 0:
            seldom.look(number / 1_000)
    assert often.rate == pytest.approx(seldom.rate, rel=0.05)


def test_what_comes_all_the_time_is_known_after_some_seconds() -> None:
    demand = Demand(0.0)
    for second in range(1, 9):
        demand.add(1)
        demand.look(float(second))
    assert demand.steady == pytest.approx(1.0, rel=0.05)
    assert demand.lasts_s(4) == pytest.approx(4.0, rel=0.05)


def test_nothing_lasts_that_nobody_comes_for_again() -> None:
    demand = Demand(0.0)
    demand.add(1)
    demand.look(0.001)
    assert demand.lasts_s(16) == 0
