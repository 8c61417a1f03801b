"""What each form of an expression means, as slots."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import islice

import pytest

from engine.cron.expression import compile_schedule
from tests.engine.cron.expression.spans import instant


def utc(spec: str, after: str, number: int, job: str = "") -> list[str]:
    slots = islice(compile_schedule(spec, job=job).slots(instant(after)), number)
    return [datetime.fromtimestamp(slot.at, tz=UTC).strftime("%y-%m-%d %H:%M:%S").removesuffix(":00") for slot in slots]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("*/15 * * * *", ["26-01-01 00:15", "26-01-01 00:30", "26-01-01 00:45"]),
        ("59/15 * * * *", ["26-01-01 00:59", "26-01-01 01:59"]),
        ("*/90 * * * *", ["26-01-01 01:00", "26-01-01 02:00"]),
        ("5-5 5-5 * * *", ["26-01-01 05:05", "26-01-02 05:05"]),
        ("*/20 30 1 * * *", ["26-01-01 01:30", "26-01-01 01:30:20", "26-01-01 01:30:40", "26-01-02 01:30"]),
        ("0 9 * * mon-fri", ["26-01-01 09:00", "26-01-02 09:00", "26-01-05 09:00"]),
        ("0 0 * * 7", ["26-01-04 00:00", "26-01-11 00:00"]),
        ("0 0 * * 5-7", ["26-01-02 00:00", "26-01-03 00:00", "26-01-04 00:00", "26-01-09 00:00"]),
        (
            "0 0 * jan-mar/2 1",
            ["26-01-05 00:00", "26-01-12 00:00", "26-01-19 00:00", "26-01-26 00:00", "26-03-02 00:00"],
        ),
        # Either will do where both days are said; a star, ? and */1 say nothing, and */2 does.
        ("0 0 13 * 5", ["26-01-02 00:00", "26-01-09 00:00", "26-01-13 00:00"]),
        ("0 0 ? * 5", ["26-01-02 00:00", "26-01-09 00:00"]),
        ("0 0 13 * ?", ["26-01-13 00:00", "26-02-13 00:00"]),
        ("0 0 */1 * 5", ["26-01-02 00:00", "26-01-09 00:00"]),
        ("0 0 */10 * 5", ["26-01-02 00:00", "26-01-09 00:00", "26-01-11 00:00"]),
        # With an n-th weekday, a stepped star asks for both.
        ("0 0 */7 * 1#3", ["26-06-15 00:00", "27-02-15 00:00", "27-03-15 00:00"]),
        ("0 0 31 2 0", ["26-02-01 00:00", "26-02-08 00:00"]),
        ("0 0 L * *", ["26-01-31 00:00", "26-02-28 00:00"]),
        ("0 0 L,1 * *", ["26-01-31 00:00", "26-02-01 00:00"]),
        ("0 0 LW * *", ["26-01-30 00:00", "26-02-27 00:00", "26-03-31 00:00"]),
        # 2026-02-15 is a Sunday, 2026-08-01 a Saturday, 2026-05-31 a Sunday.
        ("0 0 15W 2 *", ["26-02-16 00:00"]),
        ("0 0 1W 8 *", ["26-08-03 00:00"]),
        ("0 0 31W 5 *", ["26-05-29 00:00"]),
        ("0 0 * * 5#2", ["26-01-09 00:00", "26-02-13 00:00"]),
        ("0 0 * * FRI#5", ["26-01-30 00:00", "26-05-29 00:00"]),
        ("0 0 * * 5L", ["26-01-30 00:00", "26-02-27 00:00"]),
        ("0 0 * * L5", ["26-01-30 00:00", "26-02-27 00:00"]),
        ("0 0 * * FRIL,1", ["26-01-05 00:00", "26-01-12 00:00", "26-01-19 00:00", "26-01-26 00:00", "26-01-30 00:00"]),
        ("0 0 * * 7/2", ["26-01-03 00:00", "26-01-04 00:00", "26-01-06 00:00", "26-01-08 00:00"]),
        ("0 0 * * SUN/2", ["26-01-03 00:00", "26-01-04 00:00", "26-01-06 00:00", "26-01-08 00:00"]),
        ("0 0 29 2 *", ["28-02-29 00:00", "32-02-29 00:00"]),
        ("@hourly", ["26-01-01 01:00", "26-01-01 02:00"]),
        ("@daily", ["26-01-02 00:00"]),
        ("@midnight", ["26-01-02 00:00"]),
        ("@weekly", ["26-01-04 00:00"]),
        ("@monthly", ["26-02-01 00:00"]),
        ("@yearly", ["27-01-01 00:00"]),
        ("@Annually", ["27-01-01 00:00"]),
        ("@every 90s", ["26-01-01 00:01:30", "26-01-01 00:03", "26-01-01 00:04:30"]),
        ("@every 1h30m", ["26-01-01 01:30", "26-01-01 03:00"]),
        ("@every 1h/45m", ["26-01-01 00:45", "26-01-01 01:45"]),
        ("CRON_TZ=Asia/Kolkata 0 9 * * *", ["26-01-01 03:30", "26-01-02 03:30"]),
        ("TZ=Asia/Kolkata @daily", ["26-01-01 18:30"]),
    ],
)
def test_the_slots_of_each_form(spec: str, expected: list[str]) -> None:
    assert utc(spec, "2026-01-01 00:00", len(expected)) == expected


def test_the_29th_of_february_is_found_over_a_century_without() -> None:
    assert utc("0 0 29 2 *", "2096-03-01 00:00", 1) == ["04-02-29 00:00"]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York", "Pacific/Apia", "Pacific/Kiritimati"])
@pytest.mark.parametrize("spec", ["* * * * * *", "0 0 * * *", "0 0 1 1 *", "@every 90s", "@every 366d"])
@pytest.mark.parametrize("after", [-(2**62), -62_135_596_800, 253_370_764_799, 253_402_300_799, 2**62])
def test_at_both_ends_of_the_calendar_there_are_slots_that_can_be_said_or_none(
    spec: str, zone: str, after: int
) -> None:
    schedule = compile_schedule(spec, zone_name=zone)
    found = list(islice(schedule.slots(after), 3))
    assert all(slot.utc and slot.local and slot.at > after for slot in found)
    assert len(found) == (3 if after < 0 else 0)


def test_the_calendar_ends() -> None:
    assert compile_schedule("0 0 1 1 *").after(instant("9998-06-01 00:00")) is None


def test_hash_spreading_is_steady_even_and_inside_its_bounds() -> None:
    jobs = [f"job-{n}" for n in range(3_000)]
    minutes = Counter(utc("H * * * *", "2026-01-01 00:00", 1, job)[0][-2:] for job in jobs)
    assert len(minutes) == 60
    assert max(minutes.values()) < 90
    assert utc("H H * * *", "2026-01-01 00:00", 1, "a") == utc("H H * * *", "2026-01-01 00:00", 1, "a")
    assert utc("H H * * *", "2026-01-01 00:00", 1, "ab") != utc("H H * * *", "2026-01-01 00:00", 1, "ba")
    for job in jobs[:50]:
        quarters = [int(slot[-2:]) for slot in utc("H/15 * * * *", "2025-12-31 23:59", 4, job)]
        assert [minute - quarters[0] for minute in quarters] == [0, 15, 30, 45]
        assert 0 <= quarters[0] < 15
        assert 0 <= int(utc("H(0-29) * * * *", "2025-12-31 23:59", 1, job)[0][-2:]) <= 29
        tens = [int(slot[-2:]) for slot in utc("H(10-29)/10 * * * *", "2025-12-31 23:59", 2, job)]
        assert 10 <= tens[0] < 20
        assert tens[1] == tens[0] + 10
        # Every month has it.
        assert 1 <= int(utc("0 0 H * *", "2025-12-31 23:59", 1, job)[0][6:8]) <= 28
