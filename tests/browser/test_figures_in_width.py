"""What stands under a figure is whole, on a desk and in a hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.conftest import NARROW, WIDE, Console, Watched

#: Each of them in words, with how much of it does not fit.
CUT = """() => [...document.querySelectorAll(".figure-note")]
  .filter((each) => each.scrollWidth > each.clientWidth || each.scrollHeight > each.clientHeight + 1)
  .map((each) => each.textContent.trim())"""
#: The longest notes there are, where the demo may have shorter ones just now.
LONGEST = """() => document.querySelectorAll(".figure-note").forEach((each) => {
  each.textContent = "mean of half a minute; 99.98 % at first attempt on reservation.availability.changed";
})"""
PAGES = ("/", "/operations/1/", "/subscriptions/booking.created/availability/", "/topics/booking.created/")


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_no_note_of_a_figure_is_cut(
    console: Console, new_page: Callable[..., Watched], viewport: dict[str, int]
) -> None:
    for path in PAGES:
        page = new_page(viewport=viewport).open(path)
        assert page.locator(".figure-note").count() > 2, path
        assert page.evaluate(CUT) == [], path
        page.evaluate(LONGEST)
        assert page.evaluate(CUT) == [], path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
