"""The arithmetic of the token bucket: rows of moments, as golang.org/x/time/rate tests its own."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.quota.bucket import Bucket


@pytest.mark.parametrize(
    ("limit", "burst", "rows"),
    [
        (
            10,
            1,
            [(0.0, 1, 1, True), (0.0, 0, 1, False), (0.125, 1, 1, True), (0.1875, 0.625, 1, False), (0.25, 1, 1, True)],
        ),
        (
            10,
            3,
            [(0.0, 3, 2, True), (0.0, 1, 2, False), (0.0, 1, 1, True), (0.125, 1.25, 2, False), (0.25, 2.5, 2, True)],
        ),
        # Time that runs back brings nothing, and what it took back it does not bring again.
        (10, 1, [(0.5, 1, 1, True), (0.1, 0, 1, False), (0.5, 0, 1, False), (0.625, 1, 1, True)]),
        (0, 2, [(0.0, 2, 1, True), (9.0, 1, 1, True), (99.0, 0, 1, False)]),
        (5, 0, [(0.0, 0, 1, False), (9.0, 0, 1, False), (9.0, 0, 0, True)]),
        (math.inf, 0, [(0.0, 0, 1, True), (0.0, 0, 10**9, True)]),
    ],
)
def test_rows(limit: float, burst: float, rows: list[tuple[float, float, int, bool]]) -> None:
    bucket = Bucket(limit, burst, 0.0)
    for at, tokens, n, taken in rows:
        assert bucket.at(at) == pytest.approx(tokens), at
        assert bucket.take(n, at) is taken, at


def test_a_reservation_waits_for_what_it_took_in_advance() -> None:
    bucket = Bucket(10, 2, 0.0)
    assert bucket.reserve(2, 0.0, math.inf) == 0
    assert bucket.reserve(2, 0.0, math.inf) == pytest.approx(0.2)
    assert bucket.reserve(1, 0.1, math.inf) == pytest.approx(0.2)
    assert bucket.at(0.1) == pytest.approx(-2)


def test_a_reservation_that_is_refused_takes_nothing() -> None:
    bucket = Bucket(10, 2, 0.0)
    assert bucket.reserve(2, 0.0, 0.0) == 0
    assert bucket.reserve(1, 0.0, 0.05) is None
    assert bucket.reserve(3, 0.0, math.inf) is None
    assert bucket.at(0.0) == 0


def test_nobody_waits_for_a_limit_of_zero() -> None:
    bucket = Bucket(0, 1, 0.0)
    assert bucket.reserve(1, 0.0, math.inf) == 0
    assert bucket.reserve(1, 0.0, math.inf) is None


def test_what_is_given_back_in_time_is_there_again() -> None:
    bucket = Bucket(10, 2, 0.0)
    bucket.take(2, 0.0)
    delay = bucket.reserve(2, 0.0, math.inf)
    assert delay == pytest.approx(0.2)
    assert bucket.give_back(2, 0.2, 0.1) == pytest.approx(2)
    assert bucket.at(0.1) == pytest.approx(1)


def test_what_may_have_been_used_is_not_given_back() -> None:
    bucket = Bucket(10, 2, 0.0)
    bucket.reserve(2, 0.0, math.inf)
    assert bucket.give_back(2, 0.0, 0.1) == 0


def test_what_later_ones_were_told_to_wait_for_is_not_given_back() -> None:
    bucket = Bucket(10, 5, 0.0)
    bucket.take(5, 0.0)
    bucket.reserve(5, 0.0, math.inf)
    bucket.reserve(3, 0.0, math.inf)
    assert bucket.give_back(5, 0.5, 0.0) == pytest.approx(2)


def test_a_new_limit_holds_from_now_on() -> None:
    bucket = Bucket(10, 10, 0.0)
    bucket.take(10, 0.0)
    bucket.set_limit(1, 0.5)
    assert bucket.at(1.5) == pytest.approx(6)


def test_a_smaller_burst_cuts_what_is_saved() -> None:
    bucket = Bucket(10, 10, 0.0)
    bucket.set_burst(4, 0.0)
    assert bucket.at(0.0) == 4
    bucket.set_burst(10, 0.0)
    assert bucket.at(0.1) == pytest.approx(5)


moments = st.lists(st.tuples(st.integers(-3, 12), st.integers(1, 9), st.booleans()), max_size=60)


@given(limit=st.integers(0, 40), burst=st.integers(0, 12), acts=moments)
def test_it_is_an_exact_bucket(limit: int, burst: int, acts: list[tuple[int, int, bool]]) -> None:
    """Beside fractions that lose nothing, over moments that may run back; all in sixteenths of a second."""
    bucket = Bucket(limit, burst, 0.0)
    tokens, last, now = Fraction(burst), 0, 0
    for step, n, waits in acts:
        now += step
        if now > last:
            tokens = min(Fraction(burst), tokens + Fraction(limit * (now - last), 16))
            last = now
        if waits:
            short = max(Fraction(0), n - tokens)
            fits = n <= burst and (short == 0 or (limit > 0 and short / limit <= 1))
            delay = bucket.reserve(n, now / 16, 1.0 + 1e-9)
            assert (delay is not None) == fits
            if delay is not None:
                assert delay == pytest.approx(float(short / limit) if short else 0.0)
        else:
            fits = n <= tokens
            assert bucket.take(n, now / 16) == fits
        tokens -= n if fits else 0
        assert bucket.tokens == pytest.approx(float(tokens))


@given(limit=st.integers(1, 40), burst=st.integers(0, 12), acts=moments)
def test_no_window_has_more_than_it_may(limit: int, burst: int, acts: list[tuple[int, int, bool]]) -> None:
    bucket = Bucket(limit, burst, 0.0)
    now, admitted = 0, []
    for step, n, _ in acts:
        now = max(0, now + step)
        if bucket.take(n, now / 16):
            admitted.append((bucket.last, n))
    for begin in range(len(admitted)):
        total = 0
        for moment, n in admitted[begin:]:
            total += n
            assert total <= burst + limit * (moment - admitted[begin][0]) + 1e-6
