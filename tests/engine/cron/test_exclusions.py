"""Days and times at which nothing of a job runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest

from engine.core.errors import BadInput
from engine.cron.exclusions import HORIZON_YEARS, MOST_LINES, MOST_WINDOWS, compile_exclusions, kept
from engine.cron.expression import FoldPolicy, Schedule, Slot, compile_schedule

LISBON = "Europe/Lisbon"


def left_out(text: str, *walls: str, zone: str = LISBON) -> list[bool]:
    found = compile_exclusions(text, zone)
    assert found is not None
    return [bool(found.why(_at(wall, zone))) for wall in walls]


def _at(wall: str, zone: str = LISBON) -> int:
    return int(datetime.fromisoformat(wall).replace(tzinfo=ZoneInfo(zone)).timestamp())


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("2026-12-25 Christmas", ("2026-12-25T00:00", "2026-12-25T23:59:59"), ("2026-12-24T23:59:59", "2027-12-25")),
        ("12-25", ("2026-12-25T12:00", "2031-12-25"), ("2026-12-26",)),
        ("02-29", ("2028-02-29",), ("2027-03-01", "2027-02-28")),
        ("2026-12-24..2027-01-02", ("2026-12-24", "2027-01-02T23:59"), ("2026-12-23T23:59", "2027-01-03")),
        (
            "2026-12-31T18:00..2027-01-01T06:00 freeze",
            ("2026-12-31T18:00", "2027-01-01T05:59:59"),
            ("2026-12-31T17:59:59", "2027-01-01T06:00"),
        ),
        ("2026-12-31..2027-01-01T06:00", ("2026-12-31T00:00",), ("2027-01-01T06:00",)),
        ("Sat,Sun", ("2026-11-21", "2026-11-22T23:59"), ("2026-11-23",)),
        ("fri-MON long weekend", ("2026-11-20", "2026-11-23"), ("2026-11-24", "2026-11-19")),
        ("08:00..18:00", ("2026-11-23T08:00", "2026-11-24T17:59:59"), ("2026-11-23T18:00", "2026-11-23T07:59")),
        ("22:00..6:00", ("2026-11-23T22:00", "2026-11-24T05:59"), ("2026-11-24T06:00", "2026-11-23T21:59")),
        ("Sun 22:00..06:00", ("2026-11-22T22:00", "2026-11-23T05:00"), ("2026-11-22T05:00", "2026-11-23T22:00")),
    ],
)
def test_a_line_leaves_out(text: str, inside: tuple[str, ...], outside: tuple[str, ...]) -> None:
    assert left_out(text, *inside) == [True] * len(inside)
    assert left_out(text, *outside) == [False] * len(outside)


def test_the_wall_of_the_zone_counts_and_the_line_is_what_is_said() -> None:
    found = compile_exclusions("\n2026-12-25 Christmas\n\nSat The weekend\n", "Asia/Tokyo")
    assert found is not None
    assert found.why(_at("2026-12-24T16:00", "UTC")) == "2026-12-25 Christmas"
    assert found.why(_at("2026-12-25T16:00", "UTC")) == "Sat The weekend"
    assert found.why(_at("2026-12-23T16:00", "UTC")) == ""


def test_nothing_leaves_nothing_out() -> None:
    assert compile_exclusions(" \n\n") is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("2026-02-30", "there is no day 2026-02-30"),
        ("13-01", "there is no day 2000-13-01"),
        ("Christmas", "christmas is no day"),
        ("Mon-Fry", "fry is no day"),
        ("Mon,", "nothing is no day"),
        ("2027-01-02..2026-12-24", "it ends before it begins"),
        ("2026-12-31T18:00..2026-12-31T18:00", "it ends before it begins"),
        ("2026-12-31T18:00..tomorrow", "tomorrow is no time on the wall"),
        ("25:00..26:00", "there is no time 25:00"),
        ("06:00..06:00", "it begins when it ends"),
        ("Mon 06:00..", "06:00.. are no times"),
    ],
)
def test_what_is_no_day_is_refused_with_its_line(line: str, why: str) -> None:
    with pytest.raises(BadInput) as refused:
        compile_exclusions(f"Sat\n{line}")
    assert (refused.value.field, refused.value.what) == ("excluded", f"Line 2, {line!r}: {why}.")


def test_too_many_lines_are_refused() -> None:
    with pytest.raises(BadInput, match="1,001 lines"):
        compile_exclusions("Sat\n" * (MOST_LINES + 1))


WINDOWS = [
    "2026-10-25",
    "10-25",
    "2026-10-24..2026-10-26",
    "2026-10-25T01:30..2026-10-25T01:45",
    "2026-03-29T00:30..2026-03-29T03:00",
    "Sat,Sun",
    "01:10..01:50",
    "23:30..01:20",
    "Sun 01:15..02:00",
    "Sat 22:00..01:40",
    "Sat,Sun\n01:10..01:50\n2026-10-25T01:30..2026-10-27T09:00",
]


@pytest.mark.parametrize("text", WINDOWS)
@pytest.mark.parametrize("fold", FoldPolicy)
@pytest.mark.parametrize("begin", ["2026-10-23", "2026-03-27"])
@pytest.mark.parametrize("spec", ["*/5 * * * *", "17 1 * * *", "@every 7m"])
def test_what_is_kept_is_what_no_line_leaves_out(text: str, fold: FoldPolicy, begin: str, spec: str) -> None:
    """Over both changes of the clocks, where the wall shows an hour twice, and none."""
    schedule = compile_schedule(spec, zone_name=LISBON, fold=fold)
    found = compile_exclusions(text, LISBON)
    assert found is not None
    first = _at(begin)
    end = first + 6 * 86_400

    def until(slots: Iterator[Slot]) -> list[int]:
        return [slot.at for slot in takewhile(lambda slot: slot.at < end, slots)]

    assert until(kept(schedule, found, first)) == [at for at in until(schedule.slots(first)) if not found.why(at)]
    assert until(kept(schedule, None, first)) == until(schedule.slots(first))


def test_a_slot_in_a_long_window_is_not_looked_for_one_by_one() -> None:
    found = compile_exclusions("2026-01-01..2027-12-31\n12:00..11:59")
    schedule = _Counting(compile_schedule("* * * * * *"))
    (first,) = islice(kept(schedule, found, _at("2026-01-01", "UTC")), 1)
    assert first.utc == "2028-01-01T11:59:00Z"
    assert schedule.asked < 10


@pytest.mark.parametrize("spec", ["0 0 29 2 1", "* * * * * *", "@every 1s"])
def test_where_nothing_is_left_the_search_ends(spec: str) -> None:
    found = compile_exclusions("Mon,Tue,Wed\nThu-Sun")
    schedule = _Counting(compile_schedule(spec))
    assert list(kept(schedule, found, _at("2026-01-01", "UTC"))) == []
    assert schedule.asked <= MOST_WINDOWS + 1


def test_no_search_goes_beyond_the_horizon() -> None:
    """Six thousand years of leap days are not looked through: a hundred are."""
    schedule = _Counting(compile_schedule("0 0 29 2 *", zone_name="Europe/Madrid"))
    begin = _at("2026-01-01")
    assert list(kept(schedule, compile_exclusions("02-29", "Europe/Madrid"), begin)) == []
    assert schedule.asked <= HORIZON_YEARS / 4 + 1
    found = [slot.utc[:4] for slot in kept(compile_schedule("0 0 29 2 *"), None, begin)]
    assert (found[0], found[-1], len(found)) == ("2028", "2124", 24)
    assert found == [slot.utc[:4] for slot in kept(compile_schedule("0 0 29 2 *"), compile_exclusions("01-01"), begin)]


@pytest.mark.parametrize(
    ("lines", "spec"),
    [
        ([f"{day}..{day}" for day in (date(2026, 1, 1) + timedelta(days=n) for n in range(900))], "0 12 * * *"),
        ([f"00:{n:02}..00:{n + 1:02}" for n in range(59)], "*/1 0 * * *"),
    ],
    ids=["days", "minutes"],
)
def test_lines_that_touch_are_one_time(lines: list[str], spec: str) -> None:
    """However many they are, they are passed in one step."""
    schedule = _Counting(compile_schedule(spec, zone_name="UTC"))
    assert next(kept(schedule, compile_exclusions("\n".join(lines)), _at("2025-12-31T23:59", "UTC")))
    assert schedule.asked <= 2 + 900 // 388


@pytest.mark.parametrize("line", ["9999-12-31..9999-12-31", "9999-12-30..9999-12-31"])
def test_the_end_of_the_calendar_is_refused_by_its_line(line: str) -> None:
    with pytest.raises(BadInput, match="Line 1"):
        compile_exclusions(line)


class _Counting(Schedule):
    """A schedule that counts how often it is asked."""

    __slots__ = ("_of", "asked")

    def __init__(self, of: Schedule) -> None:
        self._of, self.asked = of, 0

    def after(self, at: int) -> Slot | None:
        self.asked += 1
        return self._of.after(at)
