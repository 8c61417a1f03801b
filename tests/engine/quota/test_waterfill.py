"""Fair shares: the rows of youtube/doorman's tests that are right, and what must hold for any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.quota.waterfill import Claim, shares, waterfill


@pytest.mark.parametrize(
    ("capacity", "demands", "weights", "expected"),
    [
        (120, [1000, 60, 10], [1, 1, 1], [55, 55, 10]),
        (120, [1000, 50, 10], [1, 1, 1], [60, 50, 10]),
        (1000, [2000, 500, 700], [10, 10, 30], [200, 200, 600]),
        (120, [1000, 500, 200], [6, 4, 2], [60, 40, 20]),
        (100, [10, 20], [1, 1], [10, 20]),
        (0, [10, 20], [1, 1], [0, 0]),
        (100, [], [], []),
    ],
)
def test_rows(capacity: float, demands: list[float], weights: list[float], expected: list[float]) -> None:
    assert waterfill(capacity, demands, weights) == pytest.approx(expected)


def test_floors_come_first_then_priorities() -> None:
    claims = [Claim(100, floor=20), Claim(100, priority=1), Claim(100)]
    assert shares(130, claims) == pytest.approx([25, 100, 5])


def test_a_floor_that_nobody_asks_for_goes_to_others() -> None:
    assert shares(100, [Claim(0, floor=50), Claim(200)]) == pytest.approx([0, 100])


def test_floors_beyond_the_capacity_are_shared() -> None:
    assert shares(30, [Claim(100, floor=40), Claim(100, floor=40, weight=2)]) == pytest.approx([10, 20])


numbers = st.floats(0, 1000, allow_nan=False)
claims = st.lists(
    st.builds(Claim, numbers, st.floats(0.1, 10), st.sampled_from((0.0, 5.0, 200.0)), st.integers(-1, 1)), max_size=8
)


@given(capacity=numbers, claims=claims)
def test_all_is_given_that_is_asked_for_and_there(capacity: float, claims: list[Claim]) -> None:
    given = shares(capacity, claims)
    assert all(-1e-6 <= share <= claim.demand + 1e-6 for share, claim in zip(given, claims, strict=True))
    assert sum(given) == pytest.approx(min(capacity, sum(claim.demand for claim in claims)), abs=1e-6)


@given(capacity=numbers, demands=st.lists(numbers, min_size=2, max_size=8), lie=st.floats(1, 100))
def test_who_claims_more_than_is_needed_takes_nothing_from_who_needs_less(
    capacity: float, demands: list[float], lie: float
) -> None:
    """Whoever has what it asked for keeps it, whatever others claim; and nobody gets below an equal part so."""
    lied = [demands[0] * lie, *demands[1:]]
    equal = capacity / len(demands)
    for demand, share in list(zip(lied, waterfill(capacity, lied, [1.0] * len(lied)), strict=True))[1:]:
        assert share >= min(demand, equal) - 1e-6
