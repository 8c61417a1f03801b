"""What an entry of Celery's is due at: as Celery itself finds it, and as an expression of ours says it."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab, schedule, solar
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import BadInput
from engine.cron.beat.rules import expression_of, rule_of, zone_of
from engine.cron.expression import Schedule, compile_schedule

APP = Celery(set_as_current=False)
#: A Monday that is the first of its month.
START = datetime(2024, 1, 1, 0, 0, tzinfo=UTC)


def slots(of: Schedule, after: datetime, count: int) -> list[int]:
    return [slot.at for slot in islice(of.slots(int(after.timestamp())), count)]


def as_celery_finds_them(tab: crontab, after: datetime, count: int) -> list[int]:
    found: list[int] = []
    for _ in range(count):
        _, delta, _ = tab.remaining_delta(after)
        after = after + delta
        found.append(int(after.timestamp()))
    return found


def field(low: int, high: int) -> st.SearchStrategy[Any]:
    numbers = st.integers(low, high)
    return st.one_of(
        st.just("*"),
        st.integers(1, high + 3).map(lambda step: f"*/{step}"),
        st.tuples(numbers, numbers, st.integers(1, 9)).map(lambda it: f"{it[0]}-{it[1]}/{it[2]}"),
        st.lists(numbers, min_size=1, max_size=4).map(lambda them: ",".join(map(str, them))),
        st.sets(numbers, min_size=1, max_size=5),
        numbers,
    )


def one_tab(minute: Any, hour: Any, month: Any, days: Any, weekdays: Any) -> crontab | None:
    try:
        return crontab(minute, hour, weekdays, days, month, app=APP, nowfun=None)
    except ValueError:
        # A day that none of its months has; Celery refuses it.
        return None


tabs = st.builds(
    one_tab,
    field(0, 59),
    field(0, 23),
    st.one_of(st.just("*"), field(1, 12)),
    st.one_of(st.just("*"), st.sampled_from(["1-7", "8-21", "29-31", "1-6", "*/2", "*/10"]), field(1, 31)),
    st.one_of(st.just("*"), st.sampled_from(["mon-fri", "sat-mon", "sunday"]), field(0, 6)),
).filter(lambda tab: tab is not None)


@given(tabs, st.integers(0, 400))
def test_it_is_due_when_celery_says_so(tab: crontab, days: int) -> None:
    """With both days said, too: Celery asks for both."""
    after = START + timedelta(days=days, minutes=-1)
    tab.nowfun = None
    assert slots(rule_of(tab, False, "UTC").slots, after, 6) == as_celery_finds_them(tab, after, 6)


@given(tabs, st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]))
def test_an_expression_says_the_same_or_there_is_none(tab: crontab, zone: str) -> None:
    """Around changes of the clocks, too."""
    rule = rule_of(tab, False, zone).slots
    both = len(tab.day_of_month) < 31 and len(tab.day_of_week) < 7
    with suppress(BadInput) if both else nullcontext():
        said = compile_schedule(expression_of(tab, False, zone), zone_name=zone)
        assert slots(said, START, 40) == slots(rule, START, 40)


@pytest.mark.parametrize(
    ("days", "weekdays", "said"),
    [
        ("1-7", "mon", "0 0 * * 1#1"),
        ("1-7,15-21", "mon,tue", "0 0 * * 1#1,2#1,1#3,2#3"),
        ("29-31", "fri", "0 0 * * 5#5"),
        ("*/10", "sun", "0 0 */10 * 0#1,0#2,0#3,0#4,0#5"),
        ("1-31", "mon", "0 0 * * 1"),
        ("13", "0-6", "0 0 13 * *"),
    ],
)
def test_days_of_both_kinds_are_asked_for_at_once(days: str, weekdays: str, said: str) -> None:
    tab = crontab(0, 0, weekdays, days, app=APP)
    assert expression_of(tab, False, "UTC") == said
    assert slots(compile_schedule(said), START, 60) == as_celery_finds_them(tab, START, 60)


def test_a_day_and_a_weekday_that_no_expression_asks_for_at_once_are_refused() -> None:
    """Here ``0 0 13 * 5`` would fire on each 13th and on each Friday."""
    with pytest.raises(BadInput, match="either of them") as refused:
        expression_of(crontab(0, 0, "fri", 13), False, "UTC")
    assert "1-7" in refused.value.remedy


@pytest.mark.parametrize(
    ("said", "relative", "expression"),
    [
        (30, False, "@every 30s"),
        (5400.0, False, "@every 1h30m"),
        (timedelta(days=1), False, "@every 1d"),
        (schedule(timedelta(minutes=7)), False, "@every 7m"),
        (timedelta(days=1), True, "0 0 * * *"),
        (schedule(3600, relative=True), False, "0 * * * *"),
        (60, True, "* * * * *"),
        (59, True, "@every 59s"),
        (420, True, "@every 7m"),
        (7200, True, "@every 2h"),
        (crontab(), False, "* * * * *"),
        (crontab("*/15", "8-17", "mon-fri"), False, "*/15 8-17 * * 1-5"),
        (crontab("0,15,30,45"), False, "0,15,30,45 * * * *"),
        (crontab([0, 30], 3, day_of_week="sat-mon", month_of_year="*/3"), False, "0,30 3 * 1,4,7,10 0,1,6"),
    ],
)
def test_what_an_entry_says_in_our_words(said: Any, relative: bool, expression: str) -> None:
    assert expression_of(said, relative, "UTC") == expression
    ours = compile_schedule(expression)
    assert slots(rule_of(said, relative, "UTC").slots, START, 5) == slots(ours, START, 5)


def sun() -> solar:
    """As Celery makes it where the package ephem is installed."""
    made = solar.__new__(solar)
    made.event, made.nowfun = "sunset", None
    return made


@pytest.mark.parametrize(
    ("said", "relative", "why"),
    [
        (0.5, False, "whole seconds"),
        (0, False, "whole seconds"),
        (float("inf"), False, "whole seconds"),
        (timedelta(days=400), False, "whole seconds"),
        (5400, True, "rounds its 1h30m to the hour"),
        (timedelta(days=2), True, "with which day it begins"),
        (sun(), False, r"follows the sun \(sunset\)"),
        ("0 3 * * *", False, "of the class str"),
        (None, False, "of the class NoneType"),
        (type("Clocked", (crontab,), {})(), False, "of the class Clocked"),
        (crontab(nowfun=datetime.now), False, "nowfun"),
        (crontab(day_of_month=29, month_of_year=2, day_of_week=[]), False, "never come together"),
    ],
)
def test_what_has_no_slots_of_its_own_is_refused(said: Any, relative: bool, why: str) -> None:
    for read in (expression_of, rule_of):
        with pytest.raises(BadInput, match=why) as refused:
            read(said, relative, "Europe/Berlin")
        assert refused.value.remedy


def test_the_zone_is_that_of_the_app() -> None:
    assert zone_of(Celery(set_as_current=False)) == "UTC"
    assert zone_of(Celery(set_as_current=False, timezone="Europe/Lisbon")) == "Europe/Lisbon"
    with pytest.raises(BadInput, match="each machine would take its own"):
        zone_of(Celery(set_as_current=False, enable_utc=False))
    with pytest.raises(BadInput, match="has no name"):
        zone_of(Celery(set_as_current=False, timezone=timezone(timedelta(hours=2))))
