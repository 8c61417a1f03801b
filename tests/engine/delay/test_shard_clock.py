"""The time that a shard goes by."""

from __future__ import annotations

import pytest

from engine.delay.shard_clock import MOST_FORWARD_MS, MOST_SKEW_MS, ShardClock

WALL = 1_790_000_000_000


@pytest.fixture
def clock() -> ShardClock:
    return ShardClock(WALL, 100.0)


def test_it_goes_with_the_wall(clock: ShardClock) -> None:
    assert clock.read(WALL + 10, 100.01) == (WALL + 10, False)
    assert clock.read(WALL + 3_600_000, 3_700.0) == (WALL + 3_600_000, False)


def test_it_stands_still_while_the_wall_is_behind(clock: ShardClock) -> None:
    clock.read(WALL + 1_000, 101.0)
    assert clock.read(WALL - 3_600_000, 102.0) == (WALL + 1_000, False)
    assert clock.read(WALL + 999, 3_703.0) == (WALL + 1_000, False)
    assert clock.read(WALL + 1_001, 3_703.1) == (WALL + 1_001, False)


def test_a_step_forward_stops_it_until_somebody_confirms(clock: ShardClock) -> None:
    stepped = WALL + 1_000 + MOST_FORWARD_MS + 1
    assert clock.read(stepped, 101.0) == (WALL, True)
    # Not because time goes on.
    assert clock.read(stepped + 5_000, 106.0) == (WALL, True)
    assert not clock.confirm(stepped + 5_000, WALL + 6_000)
    assert clock.read(stepped + 6_000, 107.0) == (WALL, True)
    assert clock.confirm(stepped + 6_000, stepped + 6_000 - MOST_SKEW_MS)
    assert clock.read(stepped + 6_001, 107.001) == (stepped + 6_001, False)


def test_a_small_step_is_no_reason_to_stop(clock: ShardClock) -> None:
    assert clock.read(WALL + 1_000 + MOST_FORWARD_MS, 101.0) == (WALL + 1_000 + MOST_FORWARD_MS, False)


def test_a_machine_that_slept_is_asked(clock: ShardClock) -> None:
    """The monotonic clock did not count its sleep."""
    assert clock.read(WALL + 8 * 3_600_000, 100.5).stopped
    assert clock.confirm(WALL + 8 * 3_600_000, WALL + 8 * 3_600_000)
    assert clock.read(WALL + 8 * 3_600_000, 100.5) == (WALL + 8 * 3_600_000, False)


def test_a_clock_that_has_drifted_is_stopped_when_it_is_asked_for(clock: ShardClock) -> None:
    assert not clock.confirm(WALL, WALL - MOST_SKEW_MS - 1)
    assert clock.read(WALL + 1, 100.001).stopped
