"""Until when a live page says that it was what a reload would show: never beyond a change that it has not met."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import Console, Watched
from tests.browser.test_live_pages import asked, began, hear, listening, tell


def moment(page: Page) -> str:
    """Empty where it says that it is behind."""
    title = page.locator("[data-live-indicator]").get_attribute("title") or ""
    said = "this page was what a reload would show" in title
    return title.partition("At ")[2].partition(" ")[0] if said else ""


def test_a_page_says_of_no_moment_after_a_change_that_it_was_what_a_reload_would_show(
    console: Console, new_page: Callable[..., Watched]
) -> None:
    page, held = listening(console, new_page, "/topics/")
    # The first began before the clock leapt, and seems to have taken long.
    for _ in range(2):
        page.evaluate("delete document.body.dataset.read")
        asked(page, held).continue_()
        expect(page.locator("body[data-read]")).to_have_count(1)

    def look() -> None:
        """One of the server that has found no change."""
        hear(page, began(page) + 7_200_000, began(page) + 7_200_000, "1")

    look()
    still = moment(page)
    page.clock.run_for(1_000)
    look()
    assert moment(page) > still
    tell(page, ["topic:anything"])
    changed = moment(page)
    slow = asked(page, held)
    page.clock.run_for(2_000)
    look()
    # It is being read: of no later moment it says that.
    assert changed
    assert moment(page) in ("", changed)
    page.evaluate("delete document.body.dataset.read")
    slow.continue_()
    expect(page.locator("body[data-read]")).to_have_count(1)
    assert moment(page) > changed
    # No look has come since: it was read, which says of when it is.
    tell(page, ["topic:anything"])
    changed = moment(page)
    page.clock.run_for(1_000)
    page.evaluate("delete document.body.dataset.read")
    (held.pop() if held else asked(page, held)).continue_()
    expect(page.locator("body[data-read]")).to_have_count(1)
    assert moment(page) > changed
