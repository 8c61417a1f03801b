"""The pages of jobs in the widths of a desk and of a hand: nothing is cut, nothing lies on another thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from engine.core.clock import to_datetime
from hbus_console.jobs.wall import day_of
from tests.browser.conftest import NARROW, WIDE, Console, Watched

MEDIUM = {"width": 1000, "height": 900}
#: Fifteen minutes, over a day.
EVERY_S, DAY_S = 900, 86_400
NOW_MS = 1_795_183_331_204
#: Words of a choice that are wider than its field.
CUT = """() => [...document.querySelectorAll("#job select")].filter((each) => each.offsetParent).flatMap((each) => {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = getComputedStyle(each).font;
  const room = each.clientWidth - 36;
  return [...each.options].map((one) => one.text).filter((words) => pen.measureText(words).width > room);
})"""
#: Times on the axis that begin before the one on their left has ended.
TOUCHING = """() => {
  const drawn = [...document.querySelectorAll(".hours text")];
  const seen = drawn.filter((each) => getComputedStyle(each).display !== "none");
  const boxes = seen.map((each) => [each.textContent, each.getBoundingClientRect()]);
  boxes.sort((one, other) => one[1].left - other[1].left);
  const touches = (place) => boxes[place + 1][1].left < boxes[place][1].right + 2;
  return boxes.slice(1).map(([text], place) => touches(place) ? `${boxes[place][0]} ${text}` : "").filter(Boolean);
}"""


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_no_choice_of_the_form_is_cut(
    console: Console, new_page: Callable[..., Watched], viewport: dict[str, int]
) -> None:
    page = new_page(viewport=viewport).open("/jobs/new/")
    assert page.locator("#job select").count() > 5
    assert page.evaluate(CUT) == []


def test_on_a_narrow_screen_each_job_says_how_it_stands(console: Console, new_page: Callable[..., Watched]) -> None:
    page = new_page(viewport=NARROW).open("/jobs/")
    rows = page.locator("table.grid tbody tr")
    expect(rows.first).to_be_visible()
    for row in rows.all():
        expect(row.locator("th .badge")).to_be_visible()


def test_what_is_worth_saying_of_a_job_is_cut_nowhere(console: Console, new_page: Callable[..., Watched]) -> None:
    page = new_page().open("/jobs/")
    cell = page.locator("td.worth").first
    said = "03:50 skipped, overlaps the run before it"
    cell.evaluate("(cell, said) => (cell.innerHTML = `<span class='badge warn'>${said}</span>`)", said)
    badge = cell.locator(".badge")
    assert badge.evaluate("each => each.scrollWidth <= each.clientWidth && each.scrollHeight <= each.clientHeight + 1")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def _axis(page: Page, now_s: int) -> Any:
    html = day_of(NOW_MS, to_datetime(NOW_MS).tzinfo).axis(now_s)  # type: ignore[arg-type]
    page.locator(".day .hours").evaluate("(axis, html) => (axis.outerHTML = html)", html)
    return page.evaluate(TOUCHING)


@pytest.mark.parametrize("viewport", [WIDE, MEDIUM, NARROW], ids=["wide", "medium", "narrow"])
def test_no_time_on_the_axis_of_a_day_lies_on_another_at_any_hour(
    browser: Browser, console: Console, new_page: Callable[..., Watched], viewport: dict[str, int]
) -> None:
    page = new_page(viewport=viewport).open("/jobs/")
    begin_s = day_of(NOW_MS, to_datetime(NOW_MS).tzinfo).begin_s  # type: ignore[arg-type]
    touching = {now_s: found for now_s in range(begin_s, begin_s + DAY_S, EVERY_S) if (found := _axis(page, now_s))}
    assert not touching


@pytest.mark.parametrize("viewport", [WIDE, MEDIUM, NARROW], ids=["wide", "medium", "narrow"])
def test_a_simulation_has_the_times_of_its_span_and_none_lies_on_another(
    console: Console, new_page: Callable[..., Watched], viewport: dict[str, int]
) -> None:
    watched = new_page(viewport=viewport)
    for days in (1, 2, 3, 8, 16, 31):
        page = watched.open(f"/jobs/simulation/?begin=2027-03-25&zone=Europe/Lisbon&days={days}")
        names = page.locator(".day .hours text:visible")
        assert names.count() >= 3, days
        assert page.evaluate(TOUCHING) == [], days
        # Each time that is named somewhere stands in every line of the picture.
        assert page.locator(".day .run-day").first.locator(".tick").count() == page.locator(".day .hours text").count()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), days
