"""What no expression can mean is refused, with the place and the reason."""

from __future__ import annotations

import pytest

from engine.cron.expression import BadExpression, UnknownZone, compile_schedule


@pytest.mark.parametrize(
    ("spec", "position", "reason"),
    [
        ("", 0, "it is empty"),
        ("   ", 3, "it is empty"),
        ("* * * *", 7, "4 of its five fields are there"),
        ("* * * * * * 2026", 12, "a seventh field is not known"),
        ("61 * * * *", 0, "61 is out of the range of the minute field"),
        ("1,61 * * * *", 2, "61 is out of the range of the minute field"),
        ("* 24 * * *", 2, "24 is out of the range of the hour field"),
        ("* * 0 * *", 4, "0 is out of the range of the day of the month field"),
        ("* * * 13 *", 6, "13 is out of the range of the month field"),
        ("* * * * 8", 8, "8 is out of the range of the day of the week field"),
        ("999 * * * *", 0, "999 is out of the range of the minute field"),
        ("0 22-2 * * *", 2, "the range 22-2 of the hour field runs backwards"),
        ("0 0 * * FRI-MON", 8, "the range FRI-MON of the day of the week field runs backwards"),
        ("*/0 * * * *", 1, "'0' is no step of the minute field"),
        ("*/ * * * *", 1, "a step is missing in the minute field"),
        ("1,,2 * * * *", 2, "an item of the minute field is empty"),
        ("5- * * * *", 0, "a value of the minute field is missing"),
        ("-5 * * * *", 0, "a value of the minute field is missing"),
        ("0 0 * FOO *", 6, "'FOO' is no value of the month field"),
        ("1~5 * * * *", 0, "'1~5' is no value of the minute field"),
        ("R * * * *", 0, "'R' is no value of the minute field"),
        ("? * * * *", 0, "? is not known in the minute field"),
        ("0 0 30 2 *", 4, "no month that it allows has such a day, so it would never fire"),
        ("0 0 31 4,6,9,11 *", 4, "no month that it allows has such a day, so it would never fire"),
        ("0 0 L-3 * *", 4, "'L-3' is no day of the month"),
        ("0 0 * * L", 8, "L says the last of which weekday it means"),
        ("0 0 * * 5#6", 9, "no month has a 6th of one weekday"),
        ("H(5-2) * * * *", 1, "the range to spread over runs backwards"),
        ("Hx * * * *", 0, "'HX' is no spreading"),
        ("@reboot", 0, "a cluster is never started as one"),
        ("@soon", 0, "@soon is not known"),
        ("@daily 5", 7, "nothing stands after @daily"),
        ("@every", 0, "@every says no period"),
        ("@every 5x", 7, "'5x' is no duration"),
        ("@every 0s", 7, "the period is not between one second and 366 days"),
        ("@every 400d", 7, "the period is not between one second and 366 days"),
        ("@every 5m/5m", 9, "the phase is as long as the period or longer"),
        ("@every 5m/", 10, "the duration is missing"),
        ("CRON_TZ=Mars/Base * * * * *", 8, "'Mars/Base' is no time zone"),
        ("0 0 * * é", 8, "'é' is no character of an expression"),
        ("0 " * 400, 500, "it is longer than 500 characters"),
    ],
)
def test_it_says_where_and_why(spec: str, position: int, reason: str) -> None:
    with pytest.raises(BadExpression) as refused:
        compile_schedule(spec)
    assert (refused.value.position, refused.value.reason) == (position, reason)
    assert refused.value.remedy.endswith(".")


def test_the_remedy_of_a_backward_range_can_be_written() -> None:
    for spec in ("0 22-2 * * *", "0 0 * * FRI-MON", "0 0 * * FRI-SUN", "0 0 * NOV-FEB *"):
        with pytest.raises(BadExpression) as refused:
            compile_schedule(spec)
        written = refused.value.remedy.removeprefix("Write it as two: ").removesuffix(".")
        fields = spec.split()
        fields[next(n for n, field in enumerate(fields) if "-" in field)] = written
        compile_schedule(" ".join(fields))


@pytest.mark.parametrize("name", ["", "Nowhere", "../../etc/passwd", "europe/lisbon", "Europe", "/Europe/Lisbon"])
def test_a_zone_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(UnknownZone, match="is no time zone"):
        compile_schedule("* * * * *", zone_name=name)


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [
        ("0 0 * * FRI-MON", "Write it as two: FRI-SAT,SUN-MON."),
        # Sunday is the first day as well, and what is written as two would run backwards too.
        ("0 0 * * 7-0", "Write SUN."),
        ("0 0 * * 7-3", "Write SUN-WED."),
    ],
)
def test_what_is_written_instead_of_a_range_that_runs_backwards_is_taken(spec: str, remedy: str) -> None:
    with pytest.raises(BadExpression) as refused:
        compile_schedule(spec)
    assert refused.value.remedy == remedy
    instead = remedy.removeprefix("Write ").removeprefix("it as two: ").rstrip(".")
    assert compile_schedule(f"0 0 * * {instead}").next_after(0)


def test_a_step_beyond_its_field_leaves_the_first_value_however_large_it_is() -> None:
    for step in (60, 9_999, 10_000, 10**50):
        assert compile_schedule(f"5/{step} * * * *").next_after(0) == 5 * 60
