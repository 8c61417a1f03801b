"""A form whose session has ended, or is another one by now, keeps what was typed and can be sent again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console, Watched, sign_in
from tests.browser.test_forms import fill, send


@pytest.fixture
def page(empty_console: Console, new_page: Callable[..., Watched]) -> Page:
    """In a session of its own: others go on with theirs."""
    watched = new_page(storage_state=None)
    sign_in(watched.page, empty_console)
    return watched.open("/teams/")


def sign_out_beside(page: Page) -> Page:
    """In another tab, which is given back."""
    beside = page.context.new_page()
    beside.goto(page.url)
    beside.locator("form[action*=logout] button").evaluate("button => button.form.submit()")
    expect(beside.get_by_role("heading", name="Sign in")).to_be_visible()
    return beside


def sign_in_there(beside: Page, console: Console) -> None:
    beside.fill("[name=username]", "admin")
    beside.fill("[name=password]", console.password)
    beside.get_by_role("button", name="Sign in").click()
    expect(beside.locator("[data-live-indicator]")).to_be_visible()


def test_signed_out_elsewhere_the_form_stays_and_leads_to_a_sign_in_beside_it(
    page: Page, empty_console: Console
) -> None:
    fill(page, "Signed-out desk")
    sign_out_beside(page).close()
    send(page)
    said = page.locator("#new [data-said]")
    expect(said).to_contain_text("You were signed out, and nothing was done. What you typed is kept here")
    expect(page.locator("#new [name=name]")).to_have_value("Signed-out desk")
    with page.context.expect_page() as opened:
        said.get_by_role("link").click()
    beside = opened.value
    expect(beside.locator("main")).to_contain_text("You were signed out, or your session has ended.")
    sign_in_there(beside, empty_console)
    assert beside.url == page.url

    # The sign-in has given the browser another token: this is said once, and what is pressed then is done.
    send(page)
    expect(said).to_contain_text("somebody signed in here anew, as admin. What you typed is kept here: send it again.")
    expect(page.locator("#new [name=name]")).to_have_value("Signed-out desk")
    send(page)
    expect(page.locator(".said")).to_contain_text("Signed-out desk can now own")
