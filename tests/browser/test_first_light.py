"""The newcomer's way: an empty console, bookings flow, a poison message is found, explained, mended, accounted for."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.conftest import Console, Watched


def test_an_empty_console_offers_the_example(empty_console: Console, new_page: Callable[..., Watched]) -> None:
    page = new_page().open("/")
    expect(page.locator("main")).to_contain_text("No topic yet")
    expect(page.get_by_role("button", name="Start this example")).to_be_visible()
    expect(page.locator(".strip .dot.ok")).to_have_count(7)


def test_a_dead_letter_is_found_explained_mended_redriven_and_accounted_for(watched: Watched, console: Console) -> None:
    page = watched.open("/")
    concern = page.locator(".rows li", has_text="dead letter").first
    expect(concern).to_contain_text("UnknownRoomCode")
    concern.get_by_role("link", name="Review").click()
    page.wait_for_url("**/dead-letters/?open=**")
    page.locator("tr.sub", has_text="attempts").first.get_by_role("link", name="Timeline").click()
    page.wait_for_url("**/messages/**")
    timeline = page.locator("ol.timeline")
    expect(timeline).to_contain_text("Published by")
    expect(timeline).to_contain_text("Dead in partner-sync")

    mended = console.installation.manage("hotel_partner", "add-room", console.things["room"])
    assert mended.returncode == 0, mended.stderr
    page.get_by_role("link", name="Redrive").click()
    page.wait_for_url("**/dead-letters/**letter=**")
    page.get_by_label("Why").fill("the partner added the room")
    page.get_by_role("button", name="Redrive 1").click()
    page.wait_for_url("**/messages/**")
    expect(page.locator("ol.timeline")).to_contain_text("Redrive asked by admin")

    watched.open("/audit/")
    entry = page.locator("tbody tr", has_text="the partner added the room").first
    expect(entry).to_contain_text("admin")
