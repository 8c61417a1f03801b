"""What is recommended refuses hardly anything of what came, whichever way it came, and nothing smaller does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.quota import Period, Rule
from engine.quota.advising import TOLERATED, RateAdvice, advise
from engine.quota.preview import foresee

BEGIN = 1_790_000_040
RULE = Rule(id="tried", limit=1, burst=1)


def advice(*came: dict[int, float]) -> RateAdvice:
    found = advise(RULE, came)
    assert found is not None
    return found


def steady(tokens: float, minutes: int = 60) -> dict[int, float]:
    return {BEGIN + 60 * number: tokens for number in range(minutes)}


def test_of_what_comes_evenly_the_mean_is_enough_and_the_burst_holds_a_minute() -> None:
    found = advice(steady(600))
    assert found.asked == 36_000
    assert (found.recommended.limit, found.recommended.burst) == (10, 600)
    assert (found.recommended.least, found.recommended.most) == (0, 0)
    assert found.curve[0].limit == 2.5
    assert found.curve[0].most == pytest.approx(0.75)


def test_a_rare_peak_takes_a_burst_and_no_high_rate() -> None:
    """One minute of a day has twice as much: a thousandth of all may be refused of it."""
    came = steady(600, 1_440)
    came[BEGIN + 600] = 1_200
    found = advice(came)
    assert found.recommended.limit == pytest.approx(11)
    assert found.recommended.burst < 700


def test_the_curve_falls_to_nothing() -> None:
    came = {BEGIN + 60 * number: float(number % 10 * 60) for number in range(100)}
    found = advice(came)
    shares = [point.most for point in found.curve]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.1
    assert shares[-1] == 0
    assert all(point.least <= point.most for point in found.curve)
    assert [point.limit for point in found.curve] == sorted({point.limit for point in found.curve})


def test_each_tenant_has_a_bucket_of_its_own_and_the_busiest_says_how_large() -> None:
    few, many = steady(60), steady(6_000)
    assert advice(few, many).recommended.limit == advice(many).recommended.limit
    assert advice(few, few, few).recommended == advice(few).recommended


@pytest.mark.parametrize("period", [Period.DAY, Period.MONTH, Period.AT_ONCE])
def test_what_has_no_rate_is_advised_nothing(period: Period) -> None:
    assert advise(Rule(id="tried", limit=1, burst=1, period=period), [steady(6)]) is None


def test_where_nothing_came_nothing_is_said() -> None:
    assert advise(RULE, []) is None
    assert advise(RULE, [{BEGIN: 0}]) is None


@given(
    st.lists(
        st.dictionaries(st.integers(0, 200).map(lambda number: BEGIN + 60 * number), st.integers(0, 10**6), min_size=1),
        min_size=1,
        max_size=3,
    )
)
def test_what_is_recommended_refuses_no_more_than_is_tolerated(came: list[dict[int, int]]) -> None:
    found = advise(RULE, came)
    if found is None:
        assert not any(sum(asked.values()) for asked in came)
        return
    best = found.recommended
    tried = Rule(id="tried", limit=best.limit, burst=best.burst)
    asked = sum(sum(each.values()) for each in came)
    let_through = sum(foresee(tried, each).least for each in came)
    assert asked - let_through <= TOLERATED * asked
    smaller = [point for point in found.curve if point.limit < best.limit]
    assert all(point.most >= TOLERATED for point in smaller)
