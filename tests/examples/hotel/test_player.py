from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from examples.hotel.bookings import Feed
from examples.hotel.lifecycle import Moment, moments
from examples.hotel.player import BATCH, due, timeline
from tests.examples.hotel.conftest import booking

HOURS = (0, 1, 1.5, 30, 31)


def played() -> list[float]:
    event = next(moments(Feed("/hotel/test/1", (booking(),)))).event
    begin = datetime(2016, 1, 1, tzinfo=UTC)
    return timeline([Moment(begin + timedelta(hours=hours), f"m{hours}", event) for hours in HOURS])


def test_long_pauses_are_shortened_to_two_hours() -> None:
    assert [round(days * 24, 3) for days in played()] == [0, 1, 1.5, 3.5, 4.5]


@pytest.mark.parametrize(
    ("done", "elapsed_s", "upto"), [(0, 0, 1), (0, 0.9, 1), (0, 1, 2), (1, 1.5, 3), (3, 1.5, 3), (0, 99, 5), (5, 99, 5)]
)
def test_at_a_day_in_twenty_four_seconds_an_hour_is_a_second(done: int, elapsed_s: float, upto: int) -> None:
    assert due(played(), done, speed=1 / 24, elapsed_s=elapsed_s) == upto


def test_speed_zero_knows_no_clock_but_the_batch() -> None:
    assert due(played(), 2, speed=0, elapsed_s=0) == 5
    assert due([0.0] * 2 * BATCH, 0, speed=0, elapsed_s=0) == BATCH
    assert due([0.0] * 2 * BATCH, 0, speed=1, elapsed_s=1) == BATCH
