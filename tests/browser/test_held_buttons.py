"""What a script holds back or has said stays so when the live page is made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Console, Watched

RULE = "/alerts/rules/3/"
_REFRESHED = "new Promise((then) => document.addEventListener('hbus:refreshed', () => then(true), { once: true }))"


def refreshed(page: Page) -> None:
    """Wait until the page was made anew once more: it is within a quarter of a minute, for its ages."""
    assert page.evaluate(_REFRESHED)


def test_a_button_that_needs_a_tick_cannot_be_pressed_without_one(console: Console, watched: Watched) -> None:
    page = watched.open("/dead-letters/")
    page.locator("a[aria-expanded=false]").or_(page.locator("button[data-needs]")).first.wait_for()
    if not page.locator("button[data-needs]").count():
        page.locator("a[aria-expanded=false]").first.click()
    buttons = page.locator("button[data-needs]")
    expect(buttons.first).to_be_disabled()
    box = page.locator("input[type=checkbox][name=letter]").first
    refreshed(page)
    for button in buttons.all():
        expect(button).to_be_disabled()
    box.check()
    refreshed(page)
    expect(box).to_be_checked()
    for button in buttons.all():
        expect(button).to_be_enabled()
    box.uncheck()
    for button in buttons.all():
        expect(button).to_be_disabled()


def test_what_is_being_sent_is_not_sent_twice_and_what_became_of_it_stays_said(
    empty_console: Console, new_page: Callable[..., Watched]
) -> None:
    page = new_page().open(RULE)
    held: list[Route] = []
    page.route("**/test/", lambda route: held.append(route))  # noqa: PLW0108 - a builtin takes no mark
    page.route("**/audit/posted/**", lambda route: route.abort())
    button = page.get_by_role("button", name="Send a test")
    button.click()
    expect(button).to_be_disabled()
    refreshed(page)
    expect(button).to_be_disabled()
    held.pop().abort()
    said = page.locator("form > [data-said]")
    expect(said).to_contain_text("The connection was lost")
    refreshed(page)
    expect(said).to_contain_text("The connection was lost")
    expect(button).to_be_disabled()
    assert not held


@pytest.fixture
def choosing(empty_console: Console, new_page: Callable[..., Watched]) -> Iterator[Page]:
    """A live page whose form is posted by a button that needs a tick."""
    page = new_page().page

    def add(route: Route) -> None:
        fetched = route.fetch()
        plain = '<button class="button"><svg'
        needing = '<input type="checkbox" name="pick"><button class="button" data-needs="pick"><svg'
        assert plain in fetched.text()
        route.fulfill(response=fetched, body=fetched.text().replace(plain, needing))

    page.route(f"**{RULE}", add)
    page.clock.install()
    page.goto(f"{empty_console.url}{RULE}")
    expect(page.get_by_role("button", name="Send a test")).to_be_disabled()
    yield page
    # A refresh may be on its way still: that it ends with its page is no mistake of the next test.
    page.unroute_all(behavior="ignoreErrors")


def pressed(page: Page) -> tuple[Locator, Locator, list[Route]]:
    """Its button, which was pressed, the box that it needs, and what was posted, which nobody has answered."""
    held: list[Route] = []
    page.route("**/test/", lambda route: held.append(route))  # noqa: PLW0108 - a builtin takes no mark
    page.route("**/audit/posted/**", lambda route: route.fulfill(json={"state": "nothing", "location": ""}))
    button, box = page.get_by_role("button", name="Send a test"), page.locator("[name=pick]")
    box.check()
    with page.expect_request("**/test/"):
        button.click()
    return button, box, held


def lose(page: Page, held: list[Route]) -> None:
    """What was posted does not come through, and hbus says so."""
    held.pop().abort()
    expect(page.locator("form > [data-said]")).to_contain_text("The connection was lost")
    page.clock.run_for(3_000)
    expect(page.locator("form > [data-said]")).to_contain_text("It was not done")


def test_a_button_that_needs_a_tick_stays_held_while_its_form_is_posted(choosing: Page) -> None:
    page = choosing
    button, box, held = pressed(page)
    page.evaluate("document.body.dispatchEvent(new CustomEvent('hbus:refreshed', { bubbles: true }))")
    page.evaluate("document.body.append(document.createElement('i'))")
    expect(button).to_be_disabled()
    box.uncheck()
    lose(page, held)
    expect(button).to_be_disabled()
    box.check()
    expect(button).to_be_enabled()


NOTE_WHEN_FREE = """button => new MutationObserver(() => { button.wasFree ||= !button.disabled; })
  .observe(button, { attributes: true })"""


def gone(route: Route) -> None:
    route.fulfill(status=404, body="gone")


def test_no_button_comes_free_on_a_page_that_is_gone(choosing: Page) -> None:
    page = choosing
    button, box, held = pressed(page)
    page.route(f"**{RULE}", gone)
    page.clock.run_for(16_000)
    expect(page.locator(".mourns")).to_contain_text("cannot be read any more (404)")
    # It would be shut again soon: what must not come is a moment at which it can be pressed.
    button.evaluate(NOTE_WHEN_FREE)
    lose(page, held)
    expect(button).to_be_disabled()
    box.uncheck()
    box.check()
    expect(button).to_be_disabled()
    assert not button.evaluate("button => button.wasFree")
    page.unroute(f"**{RULE}", gone)
    page.clock.run_for(16_000)
    expect(page.locator(".mourns")).to_have_count(0)
    expect(button).to_be_enabled()
