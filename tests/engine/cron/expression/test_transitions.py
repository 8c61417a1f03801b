"""Changes of the clocks: every policy at both, and the zones where others broke.

2026 in Berlin: 03-29 02:00 becomes 03:00 (01:00 UTC), and 10-25 03:00 becomes 02:00 (01:00 UTC). On Lord Howe half an
hour: 10-04 02:00 becomes 02:30 and 04-05 02:00 becomes 01:30. Samoa had no 2011-12-30.
"""

from __future__ import annotations

import random
from itertools import islice, pairwise

import pytest

from engine.cron.expression import FoldPolicy, GapPolicy, compile_schedule
from tests.engine.cron.expression.spans import instant, walls

BERLIN, LORD_HOWE = "Europe/Berlin", "Australia/Lord_Howe"


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        (GapPolicy.END, ["03-28 02:30+01:00", "03-29 03:00+02:00 gap", "03-30 02:30+02:00"]),
        (GapPolicy.SKIP, ["03-28 02:30+01:00", "03-30 02:30+02:00", "03-31 02:30+02:00"]),
    ],
)
def test_a_time_that_is_left_out_runs_when_the_gap_ends_or_not_at_all(gap: GapPolicy, expected: list[str]) -> None:
    assert walls("30 2 * * *", BERLIN, "2026-03-28 00:00", 3, gap=gap) == expected


@pytest.mark.parametrize(
    ("fold", "expected"),
    [
        (FoldPolicy.FIRST, ["10-24 02:30+02:00", "10-25 02:30+02:00 first", "10-26 02:30+01:00"]),
        (FoldPolicy.LAST, ["10-24 02:30+02:00", "10-25 02:30+01:00 second", "10-26 02:30+01:00"]),
        (FoldPolicy.BOTH, ["10-24 02:30+02:00", "10-25 02:30+02:00 first", "10-25 02:30+01:00 second"]),
    ],
)
def test_a_repeated_time_runs_at_the_one_that_the_policy_names(fold: FoldPolicy, expected: list[str]) -> None:
    assert walls("30 2 * * *", BERLIN, "2026-10-24 00:00", 3, fold=fold) == expected


@pytest.mark.parametrize("gap", GapPolicy)
@pytest.mark.parametrize("fold", FoldPolicy)
def test_a_spacing_is_kept_through_both_whatever_the_policy(gap: GapPolicy, fold: FoldPolicy) -> None:
    for spec, apart in [("0 * * * *", 3600), ("*/15 * * * *", 900), ("* * * * *", 60)]:
        schedule = compile_schedule(spec, zone_name=BERLIN, gap=gap, fold=fold)
        for begin in ("2026-03-28 12:00", "2026-10-24 12:00"):
            slots = list(islice(schedule.slots(instant(begin)), 48 * 3600 // apart))
            assert {after.at - before.at for before, after in pairwise(slots)} == {apart}
    # Every second hour of the wall: the one that is left out is not made up for.
    even = walls("0 */2 * * *", BERLIN, "2026-03-28 22:30", 3, gap=gap, fold=fold)
    assert even == ["03-29 00:00+01:00", "03-29 04:00+02:00", "03-29 06:00+02:00"]


def test_several_times_in_one_gap_are_one_run_and_a_time_at_its_end_is_no_second_one() -> None:
    expected = ["03-29 03:00+02:00 gap", "03-29 03:30+02:00", "03-30 02:00+02:00"]
    assert walls("0,30 2,3 * * *", BERLIN, "2026-03-29 00:59", 3) == expected
    assert walls("0 3 * * *", BERLIN, "2026-03-28 22:00", 2) == ["03-29 03:00+02:00", "03-30 03:00+02:00"]


def test_half_an_hour_on_lord_howe() -> None:
    gap = ["10-04 01:45+10:30", "10-04 02:30+11:00 gap", "10-05 01:45+11:00"]
    assert walls("45 1 * * *", LORD_HOWE, "2026-10-03 14:00", 1) == gap[:1]
    assert walls("15 2 * * *", LORD_HOWE, "2026-10-03 14:00", 2) == ["10-04 02:30+11:00 gap", "10-05 02:15+11:00"]
    both = walls("45 1 * * *", LORD_HOWE, "2026-04-04 14:00", 3, fold=FoldPolicy.BOTH)
    assert both == ["04-05 01:45+11:00 first", "04-05 01:45+10:30 second", "04-06 01:45+10:30"]
    # The hour is repeated from its half: what stands before runs once.
    assert walls("15 1 * * *", LORD_HOWE, "2026-04-04 14:00", 2, fold=FoldPolicy.BOTH) == [
        "04-05 01:15+11:00",
        "04-06 01:15+10:30",
    ]


@pytest.mark.parametrize(
    ("spec", "gap", "expected"),
    [
        ("0 12 * * *", GapPolicy.END, ["12-29 12:00-10:00", "12-31 00:00+14:00 gap", "12-31 12:00+14:00"]),
        ("0 12 * * *", GapPolicy.SKIP, ["12-29 12:00-10:00", "12-31 12:00+14:00", "01-01 12:00+14:00"]),
        ("0 12 30 12 *", GapPolicy.END, ["12-31 00:00+14:00 gap", "12-30 12:00+14:00"]),
        ("0 12 30 12 *", GapPolicy.SKIP, ["12-30 12:00+14:00", "12-30 12:00+14:00"]),
        ("0 */8 * * *", GapPolicy.END, ["12-29 08:00-10:00", "12-29 16:00-10:00", "12-31 00:00+14:00"]),
    ],
)
def test_the_day_that_samoa_left_out(spec: str, gap: GapPolicy, expected: list[str]) -> None:
    found = walls(spec, "Pacific/Apia", "2011-12-29 12:00", len(expected), gap=gap)
    assert [wall.replace(":00-", "-") for wall in found] == expected


def test_from_inside_the_second_pass_it_goes_on_and_never_back() -> None:
    inside = "2026-11-01 01:14:30-05:00"
    assert walls("15 1 * * *", "America/New_York", inside, 1) == [
        "11-02 01:15-05:00".replace("-05:00", ":00-05:00"),
    ]


@pytest.mark.parametrize(
    "zone", [BERLIN, LORD_HOWE, "America/New_York", "Africa/Casablanca", "America/St_Johns", "UTC"]
)
def test_each_slot_is_later_than_the_one_before_and_is_found_from_any_instant_between(zone: str) -> None:
    rng = random.Random(7)
    for spec in ("30 1,2 * * *", "*/20 * * * *", "0 */3 * * *", "0 0 1 * *", "7 2 * * 0", "5 0,1,2,3 29,30,31 * *"):
        for gap in GapPolicy:
            for fold in FoldPolicy:
                schedule = compile_schedule(spec, zone_name=zone, gap=gap, fold=fold)
                begin = instant("2026-01-01 00:00") + rng.randrange(86_400)
                before = None
                for slot in islice(schedule.slots(begin), 150):
                    if before is not None:
                        assert slot.at > before
                        assert schedule.after(rng.randrange(before, slot.at)) == slot
                    before = slot.at


def test_a_spacing_has_no_run_for_an_hour_that_is_left_out_where_others_have_one() -> None:
    assert walls("* 0 * * 1#1", "Africa/Casablanca", "2009-05-31 12:00", 1) == ["07-06 00:00+01:00"]
