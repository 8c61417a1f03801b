"""The picture of a simulation says when: at the hours of one day, and the dates of several, on the wall of its zone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from itertools import pairwise

import pytest
from django.test import Client

from engine.cron.expression.offsets import zone
from hbus_console.jobs.time_axis import axis, ticks
from hbus_console.jobs.views import simulation
from tests.hbus_console.jobs.conftest import MakeJob

LISBON = zone("Europe/Lisbon")
#: Clocks go forward at one.
SHORT = date(2027, 3, 28)


def test_a_day_has_its_hours_where_they_lie_also_when_clocks_change() -> None:
    found = ticks(SHORT, 1, LISBON)
    assert [each.name for each in found] == [f"{hour:02}:00" for hour in (0, 3, 6, 9, 12, 15, 18, 21, 0)]
    # Of 23 hours two are over at three.
    assert [round(each.share * 23, 6) for each in found] == [0, 2, 5, 8, 11, 14, 17, 20, 23]
    assert round(ticks(date(2027, 3, 29), 1, LISBON)[1].share * 24, 6) == 3


def test_several_days_have_dates_at_their_midnights() -> None:
    assert [each.name for each in ticks(SHORT, 2, LISBON)] == [
        "28 Mar", "06:00", "12:00", "18:00", "29 Mar", "06:00", "12:00", "18:00", "30 Mar"
    ]  # fmt: skip
    assert [each.name for each in ticks(SHORT, 4, LISBON)] == ["28 Mar", "29 Mar", "30 Mar", "31 Mar", "1 Apr"]


@pytest.mark.parametrize("days", range(1, simulation.MOST_DAYS + 1))
@pytest.mark.parametrize("name", ["UTC", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu"])
def test_however_long_it_is_its_names_are_few_and_in_order(days: int, name: str) -> None:
    found = ticks(date(2018, 10, 20), days, zone(name))
    shares = [each.share for each in found]
    assert 4 <= len(found) <= 9 or days == 3
    assert shares == sorted(shares)
    assert (shares[0], shares[-1] <= 1) == (0, True)
    drawn = re.findall("<text.*?>", axis(found))
    kept = [place for place, each in enumerate(drawn) if "kept" in each]
    assert 3 <= len(kept) <= 4
    # The first and one at the end are named where a screen is narrow too: none may stand close to it.
    apart = [shares[after] - shares[before] for before, after in pairwise(kept)]
    assert min(apart) > 0.24, [found[place].name for place in kept]
    assert "at-end" not in drawn[-1] or kept[-1] == len(found) - 1


@pytest.mark.django_db(databases=["default", "ledger"])
def test_the_page_has_them_above_and_in_each_line(
    make_job: MakeJob, signed_in: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bill", "close"):
        make_job("http", "https://1.1.1.1/", name=name, schedule="0 3 * * *", zone="Europe/Lisbon")
    page = signed_in()
    html = page.get("/jobs/simulation/?begin=2027-03-28&days=1&zone=Europe/Lisbon").content.decode()
    assert re.findall(r'class="at[^"]*">([\d:]+)</text>', html) == [each.name for each in ticks(SHORT, 1, LISBON)]
    assert html.count('class="tick"') == 2 * 9
    assert "of 2 jobs" not in html
    monkeypatch.setattr(simulation, "MOST_LINES", 1)
    monkeypatch.setattr(simulation, "MOST_JOBS", 2)
    make_job("http", "https://1.1.1.1/", name="third")
    html = page.get("/jobs/simulation/?begin=2027-03-28&days=1&zone=Europe/Lisbon").content.decode()
    assert "1 of 2 jobs" in html
    assert "1 job of 3 was not looked at" in html
