"""What a script holds back or has said stays so when the live page is made anew."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Console, Watched

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
    page = new_page().open("/alerts/rules/3/")
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
