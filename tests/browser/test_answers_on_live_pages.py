"""What shows nothing live is not behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

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
