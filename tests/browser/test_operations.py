"""Work on many messages, clicked through: from a filter that is tried to the copy's own timeline."""

from __future__ import annotations

import re
import time

from playwright.sync_api import expect

from engine.core.ids import new_id
from tests.browser.conftest import Watched


def test_a_replay_from_its_form_to_the_copy(watched: Watched) -> None:
    # Given the form of a topic, and a filter that is wrong at first
    page = watched.open("/replays/booking.cancelled/")
    page.fill("#filter", "payload.hotel ==")
    page.get_by_role("button", name="Test this filter").click()
    expect(page.locator("#matches")).to_contain_text("at character 17")

    # When it is mended and tried, it says how far it looked
    page.fill("#filter", "exists(payload.booking) or type == 'booking.cancelled'")
    page.fill("#from", "")
    page.get_by_role("button", name="Test this filter").click()
    expect(page.locator("#matches")).to_contain_text(re.compile(r"Scanned [\d,]+, matched [\d,]+, stopped because"))

    # And the dry run counts before anything happens
    page.select_option("#into_group", "partner-sync")
    page.get_by_role("button", name="Dry run…").click()
    expect(page.locator("h1")).to_contain_text("dry run")
    page.fill("#reason", "the partner lost a night")
    page.select_option("#rate", "10")
    page.get_by_role("button", name=re.compile(r"^Replay")).click()

    # Then it moves by itself, can be held, goes on, and ends when it is told to
    page.wait_for_url(re.compile(r"/operations/\d+/"))
    progress = page.locator("#progress")
    expect(progress.locator("tbody tr").first).to_be_visible(timeout=60_000)
    for verb, state in (("Pause", "paused"), ("Resume", "running"), ("Cancel", "cancelled")):
        page.get_by_role("button", name=f"{verb}…").click()
        page.fill(f"#{verb.lower()}-why", "because")
        page.get_by_role("button", name=f"{verb} it").click()
        expect(page.locator("#progress .panel-head")).to_contain_text(state, timeout=60_000)

    # And each result leads to the copy, which names its original: by itself, once the outbox and the keeper are through
    page.locator("#progress tbody td a.mono").first.click()
    page.wait_for_url(re.compile(r"/messages/"))
    expect(page.locator("main")).to_contain_text("replayed from", timeout=60_000)


def test_a_message_that_is_not_booked_yet_is_waited_for(watched: Watched) -> None:
    # Given the page of an id that was made this moment
    made = new_id(time.time_ns() // 1_000_000)
    page = watched.open(f"/messages/{made}", status=202)
    expect(page.locator("h1")).to_contain_text("Not yet in the ledger")
    # When it has asked again, nothing was put into the page and nothing went wrong
    with page.expect_response(lambda answer: made in answer.url and answer.status == 204):
        pass
    expect(page.locator("h1")).to_contain_text("Not yet in the ledger")
    assert watched.errors == []


def test_a_reason_being_typed_stays_when_somebody_else_is_quicker(watched: Watched) -> None:
    # Given two who look at one operation that goes slowly, and one of them writes why it should be held
    page = watched.open("/replays/booking.cancelled/")
    page.fill("#from", "")
    page.select_option("#into_group", "partner-sync")
    page.get_by_role("button", name="Dry run…").click()
    page.fill("#reason", "to be stopped by two")
    page.select_option("#rate", "1")
    page.get_by_role("button", name=re.compile(r"^Replay")).click()
    page.wait_for_url(re.compile(r"/operations/\d+/"))
    page.get_by_role("button", name="Pause…").click()
    page.fill("#pause-why", "let me look first")

    # When the other cancels it
    other = page.context.new_page()
    other.goto(page.url)
    other.get_by_role("button", name="Cancel…").click()
    other.fill("#cancel-why", "the wrong topic")
    other.get_by_role("button", name="Cancel it").click()
    expect(page.locator("#progress .panel-head")).to_contain_text("cancelled", timeout=60_000)

    # Then the sheet stays with what was typed, and sending it says who was quicker
    expect(page.locator("#pause .as-of")).to_contain_text("follows when you are done", timeout=60_000)
    expect(page.locator("#pause-why")).to_have_value("let me look first")
    expect(page.locator("#pause-why")).to_be_focused()
    page.get_by_role("button", name="Pause it").click()
    expect(page.locator("#pause [role=alert]")).to_contain_text("admin cancelled it: “the wrong topic”")
    expect(page.locator("#pause-why")).to_have_value("let me look first")
    # And it goes with its page once it is let go
    page.keyboard.press("Escape")
    expect(page.locator("#pause")).to_have_count(0, timeout=60_000)
    expect(page.get_by_role("button", name="Pause…")).to_have_count(0)
