"""Days and times at which nothing of a job runs."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from engine.core.errors import BadInput
from engine.cron.exclusions import MOST_LINES, compile_exclusions

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
