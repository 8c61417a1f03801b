"""A form whose connection is lost keeps what was typed and says whether it was done."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Console, Watched

#: The killed web role is started again within seconds; a form cut off in its middle is given up after a minute.
BACK_MS = 90_000


@pytest.fixture
def page(empty_console: Console, new_page: Callable[..., Watched]) -> Page:
    return new_page().open("/teams/")


def fill(page: Page, name: str) -> None:
    page.get_by_role("button", name="New team").click()
    page.fill("#new [name=name]", name)
    page.fill("#new [name=contact]", "#front-desk")


def send(page: Page) -> None:
    page.locator("#new form .form-acts button:not([type=button])").click()


def test_a_form_sent_while_the_console_is_away_is_kept_and_not_done(page: Page, empty_console: Console) -> None:
    fill(page, "Front desk")
    os.kill(empty_console.installation.role("web")["pid"], signal.SIGKILL)
    send(page)
    said = page.locator("#new [data-said]")
    expect(said).to_contain_text("The connection was lost", timeout=10_000)
    expect(said).to_contain_text("It was not done", timeout=BACK_MS)
    expect(page.locator("#new [name=name]")).to_have_value("Front desk")
    send(page)
    expect(page.locator(".said")).to_contain_text("Front desk can now own")


def test_an_act_whose_answer_was_lost_is_said_to_be_done(page: Page) -> None:
    def cut(route: Route) -> None:
        if route.request.method == "POST":
            route.fetch(max_redirects=0)
            route.abort("connectionreset")
        else:
            route.continue_()

    page.route("**/teams/", cut)
    fill(page, "Night desk")
    send(page)
    said = page.locator("#new [data-said]")
    expect(said).to_contain_text("It was done; only its answer was lost.", timeout=BACK_MS)
    expect(page.locator("#new [name=name]")).to_have_value("Night desk")
    said.get_by_role("link", name="Go on").click()
    expect(page.locator("main")).to_contain_text("Night desk")


def test_what_the_server_refuses_is_said_on_the_same_page(page: Page) -> None:
    page.locator("#new [name=name]").evaluate("field => field.removeAttribute('maxlength')")
    fill(page, "x" * 2_000)
    send(page)
    expect(page.locator("main [role=alert]")).to_contain_text("At most")
    expect(page.locator("#new [name=name]")).to_have_value("x" * 2_000)
    page.get_by_role("button", name="New team").click()
    page.fill("#new [name=name]", "Back office")
    send(page)
    expect(page.locator(".said")).to_contain_text("Back office can now own")


def test_what_was_refused_is_not_said_of_the_next_try(page: Page) -> None:
    page.locator("#new [name=name]").evaluate("field => field.removeAttribute('maxlength')")
    fill(page, "x" * 2_000)
    send(page)
    expect(page.locator("main [role=alert]")).to_contain_text("At most")
    page.route("**/teams/", lambda route: route.abort() if route.request.method == "POST" else route.continue_())
    page.get_by_role("button", name="New team").click()
    page.fill("#new [name=name]", "Back office")
    send(page)
    expect(page.locator("#new [data-said]")).to_contain_text("The connection was lost")
    expect(page.locator("main [role=alert]")).to_have_count(1)
    expect(page.locator("main")).not_to_contain_text("At most")


def test_an_act_whose_outcome_nobody_knows_is_not_said_to_be_done(page: Page) -> None:
    page.route("**/teams/", lambda route: route.abort() if route.request.method == "POST" else route.continue_())
    page.route("**/audit/posted/**", lambda route: route.fulfill(json={"state": "unknown", "location": ""}))
    fill(page, "Late desk")
    send(page)
    said = page.locator("#new [data-said]")
    expect(said).to_contain_text("nobody knows whether it was done", timeout=BACK_MS)
    expect(page.locator("#new [name=name]")).to_have_value("Late desk")
    expect(said.get_by_role("link", name="See how it stands")).to_be_visible()
    expect(page.locator("#new form .form-acts button:not([type=button])")).to_be_enabled()


def keys_sent(page: Page, answer: Callable[[Route, int], None]) -> list[str]:
    """The keys under which the form is posted, as they come; ``answer(route, number)`` answers each."""
    keys: list[str] = []

    def take(route: Route) -> None:
        if route.request.method != "POST":
            return route.continue_()
        keys.append(route.request.headers["idempotency-key"])
        return answer(route, len(keys))

    page.route("**/teams/", take)
    return keys


def test_an_act_whose_outcome_nobody_knows_can_be_sent_as_a_new_one(page: Page) -> None:
    keys = keys_sent(page, lambda route, number: route.abort() if number == 1 else route.continue_())
    page.route("**/audit/posted/**", lambda route: route.fulfill(json={"state": "unknown", "location": ""}))
    fill(page, "New desk")
    send(page)
    page.get_by_role("button", name="Send it as a new act").click(timeout=BACK_MS)
    expect(page.locator(".said")).to_contain_text("New desk can now own")
    assert len(set(keys)) == len(keys) == 2


def test_an_act_that_may_still_come_can_be_sent_again_under_its_key(page: Page) -> None:
    keys = keys_sent(page, lambda route, number: route.abort() if number == 1 else route.continue_())
    page.route("**/audit/posted/**", lambda route: route.fulfill(json={"state": "not come", "location": ""}))
    fill(page, "Slow desk")
    send(page)
    expect(page.locator("#new [data-said]")).to_contain_text(
        "sent again as it is, it is not done twice", timeout=BACK_MS
    )
    send(page)
    expect(page.locator(".said")).to_contain_text("Slow desk can now own")
    assert len(keys) == 2
    assert len(set(keys)) == 1


@pytest.mark.parametrize("state", ["unknown", "nothing"])
def test_what_hbus_refuses_under_the_same_key_is_said_in_its_words(page: Page, state: str) -> None:
    why = "The first request with this key was not answered."
    keys = keys_sent(
        page,
        lambda route, number: route.fulfill(status=409, json={"detail": why}) if number == 1 else route.continue_(),
    )
    page.route("**/audit/posted/**", lambda route: route.fulfill(json={"state": state, "location": ""}))
    fill(page, f"Desk of {state}")
    send(page)
    said = page.locator("#new [data-said]")
    expect(said).to_contain_text(why)
    expect(said).not_to_contain_text("The connection was lost")
    anew = said.get_by_role("button", name="Send it as a new act")
    expect(anew).to_be_visible(timeout=BACK_MS)
    expect(said).to_contain_text(why)
    anew.click()
    expect(page.locator(".said")).to_contain_text(f"Desk of {state} can now own")
    assert len(set(keys)) == len(keys) == 2


LOSE_THE_NEXT_ANSWER = """() => {
  const real = window.fetch;
  window.fetch = (address, asked) => {
    if (asked?.method !== "POST") return real(address, asked);
    window.fetch = real;
    real(address, asked);
    return Promise.reject(new TypeError("lost"));
  };
}"""


def test_what_is_said_to_be_undone_stays_so_when_the_form_comes_late(page: Page) -> None:
    delayed: list[Route] = []
    keys = keys_sent(page, lambda route, number: delayed.append(route) if number == 1 else route.continue_())
    # The connection is lost for the script alone: what it sent is still on its way.
    page.evaluate(LOSE_THE_NEXT_ANSWER)
    fill(page, "Late desk")
    send(page)
    said = page.locator("#new [data-said]")
    expect(said).to_contain_text("It was not done", timeout=BACK_MS)
    (late,) = delayed
    assert late.fetch(max_redirects=0).status == 409
    send(page)
    expect(page.locator(".said")).to_contain_text("Late desk can now own")
    assert len(set(keys)) == len(keys) == 2


def test_an_export_closes_its_sheet_says_that_it_was_made_and_the_page_goes_on(
    empty_console: Console, new_page: Callable[..., Watched]
) -> None:
    page = new_page().open("/audit/")
    rows = page.locator("section[data-still] tbody tr[data-place]")
    newest = int(rows.first.get_attribute("data-place") or "")
    page.get_by_role("button", name="Export…").click()
    # A reason of blanks is refused where it was asked for.
    page.fill("#export-reason", "   ")
    page.get_by_role("button", name="Export", exact=True).click()
    expect(page.locator("#export [data-said]")).to_contain_text("This act needs a reason")
    page.fill("#export-reason", " quarterly review ")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export", exact=True).click()
    file = download.value.suggested_filename
    expect(page.locator("#content > .said")).to_contain_text(f"It was exported, as {file}.")
    expect(page.locator("#export")).to_be_hidden()
    expect(page.locator("#export-reason")).to_have_value("")
    # Its entry alone is new, and nothing is held up for a sheet that is shut.
    expect(page.locator("section[data-still] > .as-of")).to_contain_text("1 new", timeout=60_000)
    expect(page.locator("#export .as-of")).to_have_count(0)
    page.reload()
    expect(rows.first).to_have_attribute("data-place", str(newest + 1))
    expect(rows.first).to_contain_text("quarterly review")
