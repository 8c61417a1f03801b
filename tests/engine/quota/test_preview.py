"""What a rule would have let through, between the two ways in which a minute's tokens may have come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.quota import Period, Rule
from engine.quota.preview import Foreseen, foresee

BEGIN = 1_790_000_040


def _rule(limit: float, burst: float, **more: object) -> Rule:
    return Rule(id="tried", limit=limit, burst=burst, **more)  # type: ignore[arg-type]


def test_what_stays_below_the_limit_goes_if_it_comes_evenly_and_a_burst_of_it_in_any_case() -> None:
    found = foresee(_rule(10, 50), {BEGIN: 600, BEGIN + 60: 600})
    assert (found.asked, found.least, found.most) == (1200, 100, 1200)


def test_a_pause_fills_the_bucket_and_no_more() -> None:
    found = foresee(_rule(1, 100), {BEGIN: 100, BEGIN + 30 * 60: 1_000})
    assert (found.least, found.most) == (200, 260)


def test_calendar_days_begin_anew_and_seats_refuse_nothing_that_is_known() -> None:
    day = _rule(100, 0, period=Period.DAY)
    assert foresee(day, {BEGIN: 90, BEGIN + 60: 90, BEGIN + 86_400: 70}) == Foreseen(250, 170, 170)
    assert foresee(_rule(1, 0, period=Period.AT_ONCE), {BEGIN: 90}) == Foreseen(90, 90, 90)
    assert foresee(_rule(1, 1), {}) == Foreseen()


@given(
    st.floats(0, 100),
    st.floats(0, 500),
    st.dictionaries(st.integers(0, 200).map(lambda minute: BEGIN + 60 * minute), st.integers(0, 10_000), max_size=40),
)
def test_the_truth_lies_between(limit: float, burst: float, asked: dict[int, float]) -> None:
    rule = _rule(limit, burst)
    found = foresee(rule, asked)
    assert found.asked == sum(asked.values())
    assert 0 <= found.least <= found.most + 1e-6
    assert found.most <= found.asked
    over_s = max(asked, default=BEGIN) - min(asked, default=BEGIN) + 60
    assert found.most <= rule.room() + limit * over_s + 1e-6


@pytest.mark.parametrize("count", [1, 7])
def test_a_rule_of_nothing_lets_nothing_through(count: int) -> None:
    assert foresee(_rule(0, 0), {BEGIN: count}) == Foreseen(count, 0, 0)
