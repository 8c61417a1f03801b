"""What the pages say when the store is ill, and that nobody is restarted for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import redis
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console, Watched, silent
from tests.full_disk import no_snapshot

#: A store that hangs costs a page this at most: two questions with a second's patience each, on a busy machine.
PATIENCE_MS = 25_000


@contextmanager
def everybody_stays(console: Console) -> Iterator[None]:
    """The same processes before and after, ready again in the end."""

    def processes() -> dict[str, int]:
        return {line["role"]: line["pid"] for line in console.installation.status()["lines"]}

    before = processes()
    yield
    deadline = time.monotonic() + 120
    while console.installation.manage("status").returncode != 0:
        assert time.monotonic() < deadline, console.installation.output()[-3000:]
    assert processes() == before


def test_a_store_that_takes_no_writes_is_named_and_nobody_is_restarted(
    console: Console, new_page: Callable[..., Watched], store: redis.Redis
) -> None:
    page = new_page().page
    with everybody_stays(console):
        with no_snapshot(store, console.installation.state / "store"):
            _look(page, console, "The store takes no writes: it cannot write to its disk")
            page.goto(f"{console.url}/cluster/")
            expect(page.locator("main")).to_contain_text("takes no writes")
            # The broker's connection of a worker meets it when it asks again, once a second.
            page.wait_for_timeout(3_000)
        _well(page, console)


def test_a_store_that_does_not_answer_is_named_and_holds_no_page_up(
    console: Console, new_page: Callable[..., Watched], store: redis.Redis
) -> None:
    page = new_page().page
    page.set_default_navigation_timeout(PATIENCE_MS)
    valkey = psutil.Process(store.info("server")["process_id"])
    said = "The store is there and does not answer in time"
    with everybody_stays(console):
        with silent(valkey):
            page.goto(console.url)
            expect(page.locator(".rows li").first).to_contain_text(said)
        with silent(valkey):
            _look_at_subscription(page, console, said)
        for path in ("/subscriptions/", "/topics/booking.cancelled/", "/messages/", "/dead-letters/"):
            with silent(valkey):
                page.goto(console.url + path)
        _well(page, console)


def _look(page: Page, console: Console, sentence: str) -> None:
    page.goto(console.url)
    expect(page.locator(".rows li").first).to_contain_text(sentence)
    _look_at_subscription(page, console, sentence)


def _look_at_subscription(page: Page, console: Console, sentence: str) -> None:
    page.goto(f"{console.url}/subscriptions/booking.cancelled/partner-sync/")
    expect(page.locator("main")).to_contain_text(sentence)
    expect(page.get_by_label("Consumers", exact=True)).to_contain_text("Nobody can say who runs it")


def _well(page: Page, console: Console) -> None:
    page.set_default_navigation_timeout(30_000)
    page.goto(console.url)
    expect(page.locator("main")).not_to_contain_text("The store")
