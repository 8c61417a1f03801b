"""Where a message goes, and how many buckets that makes."""

from __future__ import annotations

import pytest

from engine.core.errors import BadInput
from engine.delay.cascade import begins_ms
from engine.delay.levels import (
    COARSE,
    DAY_MS,
    DEFAULT_HORIZON_MS,
    HOUR_MS,
    LATEST_MS,
    MINUTE_MS,
    WEEK_MS,
    Level,
    TimeBucket,
    Watermarks,
    bucket_at,
    insist_within,
    last_whole_tick,
    most_live,
    route,
    watermarks_at,
)

#: A Wednesday, 10:15:20.
NOW = 20_790 * DAY_MS + 10 * HOUR_MS + 15 * MINUTE_MS + 20_000


@pytest.mark.parametrize(
    ("distance_ms", "level"),
    [
        (-DAY_MS, Level.L0M),
        (30_000, Level.L0M),
        (90 * MINUTE_MS, Level.L0M),
        (3 * HOUR_MS, Level.L1H),
        (25 * HOUR_MS, Level.L1H),
        (2 * DAY_MS, Level.L2D),
        (8 * DAY_MS, Level.L2D),
        (20 * DAY_MS, Level.L3W),
        (729 * DAY_MS, Level.L3W),
    ],
)
def test_the_coarsest_level_takes_it_that_has_its_bucket_open(distance_ms: int, level: Level) -> None:
    bucket = route(NOW + distance_ms, NOW, watermarks_at(NOW))
    assert bucket.level is level
    assert bucket.start_ms <= max(NOW, NOW + distance_ms) < bucket.end_ms


def test_what_is_overdue_goes_to_the_current_minute() -> None:
    assert route(NOW - 3 * WEEK_MS, NOW, watermarks_at(NOW)) == TimeBucket(Level.L0M, NOW // MINUTE_MS)


def test_a_current_bucket_and_the_next_are_closed() -> None:
    marks = watermarks_at(NOW)
    for level in COARSE:
        number = NOW // level.size_ms
        assert [marks.closes(TimeBucket(level, number + more)) for more in (0, 1, 2)] == [True, True, False]
        assert TimeBucket(level, number + 1).closes_ms == TimeBucket(level, number).start_ms
    assert not marks.closes(TimeBucket(Level.L0M, 0))


def test_a_clock_that_goes_back_opens_nothing() -> None:
    marks = watermarks_at(NOW)
    for back in (1, HOUR_MS, WEEK_MS, 40 * WEEK_MS):
        assert marks.advanced(NOW - back) == marks
        for distance in (3 * HOUR_MS, 3 * DAY_MS, 3 * WEEK_MS):
            assert not marks.closes(route(NOW - back + distance, NOW - back, marks))
    assert marks.advanced(NOW + HOUR_MS) == Watermarks(marks.hour + 1, marks.day, marks.week)


def _live(now: int, horizon_ms: int) -> set[TimeBucket]:
    """Each bucket that takes something of what may come at ``now``."""
    marks, due, found = watermarks_at(now), now, set()
    while due <= now + horizon_ms:
        bucket = route(due, now, marks)
        found.add(bucket)
        due = bucket.end_ms
    return found


@pytest.mark.parametrize(("days", "bound"), [(730, 286), (737, 287), (30, 186)])
def test_traffic_everywhere_makes_no_more_buckets_than_the_bound(days: int, bound: int) -> None:
    """Two weeks, with something due at each moment of the horizon; each closed bucket is there until it is copied, as
    late as it may be.
    """
    horizon_ms = days * DAY_MS
    assert most_live(horizon_ms) == bound
    boundary = 2_969 * WEEK_MS
    moments = {boundary + step for step in range(-WEEK_MS, WEEK_MS, 7 * MINUTE_MS)}
    for edge in (boundary, boundary + DAY_MS, boundary + 5 * HOUR_MS, boundary + 61 * MINUTE_MS):
        moments |= {edge + off for off in (-1, 0, 1, 30_000)}
    most, levels = 0, dict.fromkeys(Level, 0)
    for now in sorted(moments):
        live = _live(now, horizon_ms)
        # What closed last is still being copied, and the minute before is handing over its last.
        live |= {TimeBucket(level, now // level.size_ms + 1) for level in COARSE}
        live.add(TimeBucket(Level.L0M, now // MINUTE_MS - 1))
        most = max(most, len(live))
        for level in Level:
            levels[level] = max(levels[level], sum(bucket.level is level for bucket in live))
    told = ", ".join(f"{level.label} {count}" for level, count in sorted(levels.items(), reverse=True))
    print(f"\nhorizon {days} d: at most {most} buckets of {bound} ({told})")
    assert most <= bound


def test_cascades_of_shards_begin_apart_and_early_enough() -> None:
    for level in COARSE:
        bucket = TimeBucket(level, 3_000)
        begun = [begins_ms(bucket, f"shard-{number}") for number in range(24)]
        assert bucket.closes_ms <= min(begun)
        assert max(begun) <= bucket.start_ms - level.size_ms // 2
        assert max(begun) - min(begun) > level.size_ms // 4
        assert len(set(begun)) == 24


def test_a_due_time_beyond_the_horizon_is_refused_with_the_field_and_the_horizon() -> None:
    insist_within(NOW + DEFAULT_HORIZON_MS, NOW, DEFAULT_HORIZON_MS)
    insist_within(NOW + 737 * DAY_MS, NOW, 740 * DAY_MS)
    insist_within(0, NOW, DEFAULT_HORIZON_MS)
    for due in (NOW + DEFAULT_HORIZON_MS + 1, NOW + 737 * DAY_MS):
        with pytest.raises(BadInput, match="the horizon is 730 days") as raised:
            insist_within(due, NOW, DEFAULT_HORIZON_MS)
        assert raised.value.field == "due_ms"
    with pytest.raises(BadInput, match="before 1970"):
        insist_within(-1, NOW, DEFAULT_HORIZON_MS)
    with pytest.raises(BadInput):
        insist_within(LATEST_MS + 1, LATEST_MS, DEFAULT_HORIZON_MS)


@pytest.mark.parametrize(("now", "tick", "due_to"), [(1_000, 100, 1_000), (1_099, 100, 1_000), (1_099, 1, 1_099)])
def test_what_is_due_within_a_tick_is_due_at_its_end(now: int, tick: int, due_to: int) -> None:
    assert last_whole_tick(now, tick) == due_to


def test_a_bucket_is_named_as_in_the_literature() -> None:
    assert [str(bucket_at(level, 7)) for level in Level] == ["L0m/7", "L1h/7", "L2d/7", "L3w/7"]
