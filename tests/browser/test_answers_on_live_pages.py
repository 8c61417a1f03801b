"""What a form's answer shows on a live page stands, and says from when it is; what shows nothing live is not behind."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Console, Watched

RULE = "/alerts/rules/3/"
#: In place of the stream: what it tells is told by the test.
STREAM = """
window.SharedWorker = class {
  constructor() {
    const { port1, port2 } = new MessageChannel();
    this.port = port1;
    window.stream = port2;
  }
};
"""
#: As after a restart of the web process.
EVERYTHING = """() => stream.postMessage(
  { say: "standing", id: 1, standing: { texts: {}, stale: "", changed: ["*"] } })"""
ANSWER = "<title>Answered</title><main id=content><div class=said></div><p>In the clear</p></main>"


@pytest.fixture
def page(empty_console: Console, new_page: Callable[..., Watched]) -> Page:
    opened = new_page().page
    opened.clock.install()
    opened.add_init_script(STREAM)
    return opened


def test_a_page_that_shows_nothing_live_is_not_behind(page: Page, empty_console: Console) -> None:
    page.goto(f"{empty_console.url}/new-topic/")
    page.evaluate(EVERYTHING)
    expect(page.locator("[data-live-indicator]")).to_contain_text("Still")
    page.clock.run_for(10_000)
    expect(page.locator("[data-live-indicator]")).to_contain_text("Still")


@pytest.mark.parametrize("ending", ["answered", "lost"])
def test_an_answer_is_not_replaced_by_what_was_read_before(page: Page, empty_console: Console, ending: str) -> None:
    indicator = page.locator("[data-live-indicator]")
    reads: list[Route] = []
    page.goto(f"{empty_console.url}{RULE}")
    page.route(f"**{RULE}", lambda route: reads.append(route))  # noqa: PLW0108 - a builtin takes no mark
    page.route("**/test/", lambda route: route.fulfill(content_type="text/html", body=ANSWER))
    with page.expect_request(f"**{RULE}"):
        page.evaluate(EVERYTHING)
        page.clock.run_for(3_000)
    page.clock.run_for(10_000)
    expect(indicator).to_contain_text("Behind")
    before = indicator.get_attribute("title") or ""
    page.get_by_role("button", name="Send a test").click()
    expect(page.locator("main")).to_contain_text("In the clear")
    expect(indicator).to_contain_text("Still")
    after = indicator.get_attribute("title") or ""
    assert before.rpartition(" of ")[2] < after.rpartition(" of ")[2]
    assert len(reads) == 1
    with page.expect_event("requestfinished" if ending == "answered" else "requestfailed"):
        reads[0].continue_() if ending == "answered" else reads[0].abort()
    # The page has taken up what came before it answers another request of its own.
    page.evaluate("fetch('/healthz').then((answer) => answer.text())")
    expect(page.locator("main")).to_contain_text("In the clear")
    expect(page).to_have_title("Answered")
    expect(indicator).to_contain_text("Still")


#: What a view says once, above its page.
SAID = """() => { document.querySelector("#content > .said").innerHTML =
  "<div class='notice ok' role='status'><div>Run 5 waits for a worker.</div></div>"; }"""


def test_what_was_said_once_says_from_when_it_is_as_soon_as_the_page_goes_on(
    page: Page, empty_console: Console
) -> None:
    page.goto(f"{empty_console.url}{RULE}")
    page.evaluate(SAID)
    said = page.locator("#content > .said > [role=status]")
    expect(said).to_have_class("notice ok")
    for _ in range(2):
        with page.expect_response(f"**{RULE}"):
            page.evaluate(EVERYTHING)
            page.clock.run_for(20_000)
        expect(said).to_have_text(re.compile(r"Run 5 waits for a worker\.Said at \d\d:\d\d:\d\d; how it stands now .+"))
        expect(said).to_have_class("notice info")
        expect(said.locator("[data-said-at]")).to_have_count(1)
