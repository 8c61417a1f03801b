from __future__ import annotations

import pytest

from hbus_console.messages import lag_history
from hbus_console.messages.lag_history import COARSE_MS, DAY_MS, SPAN_MS, LagHistory, end
from hbus_console.messages.models import LagSample

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

NOW = 1_790_000_100_000
TICK_MS = 5_000
BATCH = 50


def sample(start_ms: int, ticks: int, *, subscriptions: int = 1) -> None:
    LagSample.objects.bulk_create(
        LagSample(
            at_ms=start_ms + tick * TICK_MS, topic="t", subscription=f"s{each}", waiting=0, in_flight=0, retrying=0
        )
        for tick in range(ticks)
        for each in range(subscriptions)
    )


def thin(history: LagHistory) -> None:
    while history.thin(NOW, BATCH):
        pass


def kept() -> list[int]:
    return sorted(set(LagSample.objects.values_list("at_ms", flat=True)))


def test_of_what_is_older_than_two_days_one_reading_a_span_stays() -> None:
    old = (NOW - 3 * DAY_MS) // SPAN_MS * SPAN_MS
    sample(old, 120)
    sample(NOW - 10 * TICK_MS, 10)
    thin(LagHistory())
    assert kept() == [old, old + SPAN_MS, *(NOW - back * TICK_MS for back in range(10, 0, -1))]


def test_more_rows_than_are_fine_are_thinned_however_young(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_history, "FINE_ROWS", 60)
    start = (NOW - DAY_MS) // SPAN_MS * SPAN_MS
    sample(start, 150)
    thin(LagHistory())
    assert kept() == [start, start + SPAN_MS, *(start + tick * TICK_MS for tick in range(90, 150))]


def test_two_weeks_of_many_subscriptions_fit_by_a_longer_span(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given room for two weeks of one subscription in steps of five minutes, and three subscriptions
    monkeypatch.setattr(lag_history, "COARSE_ROWS", COARSE_MS // SPAN_MS)
    old = (NOW - 3 * DAY_MS) // (3 * SPAN_MS) * 3 * SPAN_MS
    sample(old, 240, subscriptions=3)
    thin(LagHistory())
    assert kept() == [old, old + 3 * SPAN_MS]
    assert LagSample.objects.count() == 6


def test_what_was_thinned_is_thinned_again_when_subscriptions_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_history, "COARSE_ROWS", COARSE_MS // SPAN_MS)
    old = (NOW - 3 * DAY_MS) // (2 * SPAN_MS) * 2 * SPAN_MS
    history = LagHistory()
    sample(old, 180)
    thin(history)
    assert kept() == [old, old + SPAN_MS, old + 2 * SPAN_MS]
    sample(NOW, 1, subscriptions=2)
    thin(history)
    assert kept() == [old, old + 2 * SPAN_MS, NOW]


def test_each_step_is_bounded_and_goes_on_behind_the_last() -> None:
    sample((NOW - 3 * DAY_MS) // SPAN_MS * SPAN_MS, 120)
    history = LagHistory()
    assert [history.thin(NOW, BATCH) for _ in range(4)] == [50, 50, 20, 0]


def test_two_weeks_are_the_end() -> None:
    sample(NOW - COARSE_MS - 1, 1)
    sample(NOW - COARSE_MS, 1)
    end(NOW)
    assert kept() == [NOW - COARSE_MS]


def test_nothing_was_ever_sampled() -> None:
    assert LagHistory().thin(NOW, BATCH) == 0
