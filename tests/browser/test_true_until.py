"""Until when a live page says that it was what a reload would show: never beyond a change that it has not met."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Console, Watched
from tests.browser.test_live_pages import HEAR_THE_TEST, asked, began, hear, tell


def moment(page: Page) -> str:
    """Empty where it says that it is behind."""
    title = page.locator("[data-live-indicator]").get_attribute("title") or ""
    said = "this page was what a reload would show" in title
    return title.partition("At ")[2].partition(" ")[0] if said else ""


def test_a_page_says_of_no_moment_after_a_change_that_it_was_what_a_reload_would_show(
    console: Console, new_page: Callable[..., Watched]
) -> None:
    page = new_page().page
    page.add_init_script(HEAR_THE_TEST)
    page.clock.install()
    page.goto(f"{console.url}/topics/")
    held: list[Route] = []
    page.route("**/topics/", lambda route: held.append(route))  # noqa: PLW0108 - a builtin takes no mark
    page.clock.pause_at(datetime.now() + timedelta(hours=1))  # noqa: DTZ005 - the clock of the browser
    page.evaluate("document.body.addEventListener('hbus:refreshed', () => { document.body.dataset.read = ''; })")
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
