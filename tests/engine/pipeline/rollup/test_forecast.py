"""A forecast is as sure as its days are many and alike, and says nothing of too few."""

from __future__ import annotations

import pytest

from engine.pipeline.rollup.forecast import LEAST_DAYS, MOST_DAYS, Forecast, forecast

GB = 10**9


def told(grown: list[int], free: int) -> Forecast:
    found = forecast(grown, free)
    assert found is not None
    return found


def test_of_less_than_a_week_nothing_is_said() -> None:
    assert forecast([GB] * (LEAST_DAYS - 1), 100 * GB) is None
    assert forecast([GB] * LEAST_DAYS, 100 * GB) is not None


def test_days_that_are_alike_leave_no_doubt() -> None:
    found = told([2 * GB] * 10, 101 * GB)
    assert (found.per_day, found.low, found.high, found.rising) == (2 * GB, 2 * GB, 2 * GB, 0)
    assert found.full_in == found.soonest == found.latest == 51


def test_days_that_differ_leave_a_span_that_more_of_them_narrow() -> None:
    week = [GB, 3 * GB, 2 * GB, GB, 3 * GB, 2 * GB, 2 * GB]
    few, many = told(week, 200 * GB), told(week * 8, 200 * GB)
    for found in (few, many):
        assert found.soonest is not None
        assert found.latest is not None
        assert found.full_in is not None
        assert found.soonest < found.full_in < found.latest
        assert found.full_in == pytest.approx(100, abs=2)
        assert found.rising == 0
    assert many.high - many.low < (few.high - few.low) / 2


def test_by_the_tables_of_students_distribution() -> None:
    """Mean 2, deviation 0.8165, of 7: the half of the span is 2.447 · 0.8165 / √7."""
    found = told([GB, 3 * GB, 2 * GB, GB, 3 * GB, 2 * GB, 2 * GB], GB)
    assert (found.high - found.low) / 2 / GB == pytest.approx(2.447 * 0.8165 / 7**0.5, rel=0.01)


def test_growth_that_rises_fills_it_sooner_than_its_rate_of_today() -> None:
    found = told([day * GB for day in range(1, 15)], 14 * 30 * GB)
    assert found.per_day == pytest.approx(14 * GB)
    assert found.rising == pytest.approx(GB)
    # 15 + 16 + … + 32 is more than 420.
    assert found.full_in == 18


def test_what_does_not_grow_is_never_full() -> None:
    found = told([0] * 30, GB)
    assert (found.full_in, found.soonest, found.latest) == (None, None, None)
    assert told([1] * 30, MOST_DAYS).full_in is None
    assert told([1] * 30, MOST_DAYS - 1).full_in == MOST_DAYS
