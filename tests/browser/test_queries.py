"""The page of queries as somebody uses it: asked by keys, answered while one looks on, drawn, kept and cancelled."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, Console, Watched

#: What the demo has archived, told by what it counted itself.
BY_HOTEL = "SELECT data->>'$.hotel' AS hotel, count(*) AS bookings FROM messages GROUP BY 1 ORDER BY 1"
#: As long as it may run.
ENDLESS = "SELECT count(*) FROM range(4000000) a, range(4000000) b"


@pytest.fixture
def query(watched: Watched) -> Page:
    return watched.open("/archive/query/")


def test_it_is_asked_by_keys_and_its_answer_comes_without_a_reload(query: Page) -> None:
    query.get_by_label("One statement that reads").fill(BY_HOTEL)
    query.locator("#topics").fill("booking.created")
    query.get_by_label("One statement that reads").press("Control+Enter")
    result = query.get_by_role("region", name="Result, table")
    expect(result.locator("tbody tr")).not_to_have_count(0)
    expect(query.locator("h1")).to_have_text(re.compile(r"Query \d+\s+done"))
    names = result.locator("tbody tr td:first-child").all_inner_texts()
    counts = [int(text.replace(",", "")) for text in result.locator("tbody tr td:nth-child(2)").all_inner_texts()]
    assert names == sorted(set(names))
    assert all(count > 0 for count in counts)
    # Each bar of the picture says which row it is, and how many that are.
    titles = query.locator("svg.chosen rect title").all_text_contents()
    assert len(titles) == len(names)
    assert all(f"{count:,}" in title for title, count in zip(titles, counts, strict=True))
    history = query.get_by_role("region", name="History").locator("li").first
    expect(history).to_contain_text(f"done, {len(names)} row")


def test_what_is_no_reading_is_refused_and_what_was_typed_stays(query: Page) -> None:
    field = query.get_by_label("One statement that reads")
    field.fill("DROP TABLE messages")
    field.press("Control+Enter")
    expect(query.get_by_role("region", name="Result").or_(query.locator(".notice.bad"))).to_be_visible()
    expect(query.locator("#sql")).to_have_value("DROP TABLE messages")


def test_one_that_takes_long_is_cancelled_from_its_page(query: Page) -> None:
    query.get_by_label("One statement that reads").fill(ENDLESS)
    query.get_by_role("button", name="Run").click()
    query.get_by_role("button", name="Cancel", exact=True).click()
    expect(query.locator("h1")).to_contain_text("cancelled")
    expect(query.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)


def test_on_a_telephone_a_wide_answer_scrolls_by_itself(console: Console, new_page: Callable[..., Watched]) -> None:
    page = new_page(viewport=NARROW).open("/archive/query/")
    page.get_by_label("One statement that reads").fill("SELECT * FROM messages LIMIT 3")
    page.get_by_role("button", name="Run").click()
    result = page.get_by_role("region", name="Result, table")
    expect(result.locator("tbody tr")).to_have_count(3)
    assert result.evaluate("it => it.scrollWidth > it.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_stands_in_the_editor_is_what_is_saved(query: Page) -> None:
    """Found by a stranger: the sheet had, and saved, what the page was loaded with."""
    query.locator("#sql").fill("SELECT 42 AS typed")
    query.get_by_role("button", name="Save…").click()
    expect(query.get_by_label("Statement", exact=True).last).to_have_value("SELECT 42 AS typed")
    query.get_by_label("Name", exact=True).fill("booking.typed")
    query.locator("#save-query-why").fill("the browser test keeps it")
    query.get_by_role("button", name="Save it").click()
    query.get_by_role("link", name="booking.typed").click()
    expect(query.locator("#sql")).to_have_value("SELECT 42 AS typed")
