"""What the scripts add to the pages, and that the pages can be read without them."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import TimeoutError as NotInTime
from playwright.sync_api import expect

from tests.browser.conftest import NARROW, SLOWEST_MS, Console, Watched

#: The second key of two counts for a moment only; on a busy machine it may come too late.
TRIES = 3
SEE_IT_MOVE = """() => {
    const figure = () => document.querySelector(".figure [data-live=published]")?.textContent;
    const before = figure();
    const seen = () => { window.moved ||= figure() !== before; };
    new MutationObserver(seen).observe(document.body, { childList: true, characterData: true, subtree: true });
}"""


def test_a_sheet_takes_the_focus_keeps_it_and_gives_it_back(watched: Watched) -> None:
    page = watched.open("/topics/booking.cancelled/")
    opener = page.get_by_role("button", name="Pause…")
    opener.focus()
    page.keyboard.press("Enter")
    page.keyboard.type("because")
    expect(page.locator("#pause-why")).to_have_value("because")
    for key in (*["Tab"] * 5, *["Shift+Tab"] * 6):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.closest('#pause') !== null"), key
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()


def test_after_an_act_by_keys_the_focus_is_on_what_was_said_of_it(watched: Watched) -> None:
    page = watched.open("/topics/booking.cancelled/")
    for opener, done in (("Pause…", "are held"), ("Resume…", "again")):
        page.get_by_role("button", name=opener).focus()
        page.keyboard.press("Enter")
        page.keyboard.type("because")
        page.keyboard.press("Enter")
        said = page.locator("#content > .said [role=status]")
        expect(said).to_be_focused()
        assert done in said.inner_text()
        # From there Tab leads to what the page offers next.
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('.page-head') !== null")


def test_a_refused_act_leaves_the_focus_on_its_button(watched: Watched) -> None:
    page = watched.open("/topics/booking.cancelled/")
    page.get_by_role("button", name="Pause…").focus()
    page.keyboard.press("Enter")
    page.keyboard.type("   ")
    button = page.locator("#pause form button").first
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#pause [data-said]")).to_be_visible()
    expect(button).to_be_focused()


def test_keys_lead_through_the_console(watched: Watched) -> None:
    page = watched.open("/")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#search")).not_to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).not_to_be_visible()
    for _ in range(TRIES):
        page.keyboard.press("g")
        page.keyboard.press("t")
        with contextlib.suppress(NotInTime):
            page.wait_for_url("**/topics/", timeout=60_000)
            break
    page.wait_for_url("**/topics/")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("tr.cursor")).to_have_count(1)
    chosen = page.locator("tr.cursor a").first.inner_text()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/topics/{chosen}/**")


def test_keys_type_text_where_text_belongs(watched: Watched) -> None:
    page = watched.open("/search/")
    page.locator("main input[name=q]").click()
    page.keyboard.type("gt?/")
    expect(page.locator("main input[name=q]")).to_have_value("gt?/")
    expect(page.locator("#help")).not_to_be_visible()


def test_the_search_box_finds_while_one_types_and_opens_by_keys(watched: Watched) -> None:
    page = watched.open("/")
    page.keyboard.press("Control+k")
    page.keyboard.type("cancelled", delay=10)
    expect(page.locator("#found a").first).to_contain_text("booking.cancelled")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/booking.cancelled/**")


def test_the_chart_is_drawn_and_its_crosshair_reads_all_series(watched: Watched) -> None:
    page = watched.open("/?range=15m")
    expect(page.locator(".chart canvas")).to_have_count(1)
    expect(page.locator("[data-legend] li")).to_contain_text(["published", "settled"])
    box = page.locator(".chart .u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 40)
    expect(page.locator(".readout")).to_be_visible()
    expect(page.locator(".readout")).to_contain_text(re.compile(r"published\s*[\d.,]+ /s"))
    expect(page.locator(".readout")).to_contain_text("settled")


def test_failures_stand_in_the_chart_of_a_flow_and_in_its_legend(watched: Watched) -> None:
    page = watched.open("/subscriptions/booking.cancelled/partner-sync/")
    legend = page.locator("#flow [data-legend]")
    # What was played just now stands in the chart once its span of time is over.
    expect(legend).to_contain_text("failed", timeout=90_000)
    expect(legend).to_contain_text("dead")
    red = """() => {
        const canvas = document.querySelector("#flow canvas"), { width, height } = canvas;
        // Of a copy: Chromium complains of a canvas that is read again and again.
        const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        const { data } = copy.getImageData(0, 0, width, height);
        let count = 0;
        for (let at = 0; at < data.length; at += 4) count += data[at] > 150 && data[at + 1] < 60 && data[at + 2] < 60;
        return count;
    }"""
    # Not by what waits inside the page: from its second look on that needs what the page's policy forbids.
    until = time.monotonic() + SLOWEST_MS / 1000
    while page.evaluate(red) <= 4:
        assert time.monotonic() < until, "no mark of a failure was drawn"
        page.wait_for_timeout(100)


def test_selecting_in_the_chart_narrows_the_time_range_of_the_page(watched: Watched) -> None:
    page = watched.open("/?range=3h")
    box = page.locator(".chart .u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 60, steps=5)
    page.mouse.up()
    page.wait_for_url(re.compile(r"from=\d+&to=\d+"))
    start, end = re.findall(r"=(\d+)", page.url)
    assert abs((int(end) - int(start)) - 1.5 * 3_600_000) < 120_000


def test_one_time_range_holds_on_every_page(watched: Watched) -> None:
    page = watched.open("/")
    page.locator("details.menu > summary.button").click()
    page.get_by_role("link", name=re.compile("Last 24 hours")).click()
    page.wait_for_url("**/?range=24h")
    page.locator("[data-go=t]").click()
    page.wait_for_url("**/topics/?range=24h")
    page.locator("th a").first.click()
    page.wait_for_url("**range=24h")
    expect(page.locator("details.menu > summary.button")).to_contain_text("Last 24 hours")


def test_figures_move_by_themselves(watched: Watched, console: Console) -> None:
    page = watched.open("/")
    expect(page.locator("[data-live-indicator]")).to_contain_text("Live")
    page.evaluate("window.stayed = true")
    # It is a rate: where the demo takes long to end, it has fallen again by then.
    page.evaluate(SEE_IT_MOVE)
    played = console.installation.manage("hotel_demo", "--limit", "150", "--fast", "--json", timeout_s=120)
    assert played.returncode == 0, played.stdout + played.stderr
    page.wait_for_function("window.moved", timeout=60_000)
    assert page.evaluate("window.stayed")


def test_the_theme_is_kept(watched: Watched) -> None:
    page = watched.open("/ui-kit/")
    light = page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")
    page.get_by_role("button", name="Change the theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    dark = page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")
    assert light != dark
    watched.open("/topics/")
    assert page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor") == dark


def test_a_command_can_be_copied(watched: Watched, console: Console) -> None:
    page = watched.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=console.url)
    watched.open("/cluster/")
    page.get_by_role("button", name="Copy as curl").click()
    expect(page.locator("#toasts")).to_contain_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("curl -sS ")
    assert f"{console.url}/api/v1/cluster" in copied


def test_on_a_narrow_screen_the_rail_is_a_menu(console: Console, new_page: Callable[..., Watched]) -> None:
    watched = new_page(viewport=NARROW)
    page = watched.open("/")
    expect(page.locator("#rail")).not_to_be_visible()
    page.get_by_role("button", name="Menu").click()
    expect(page.locator("#rail")).to_be_visible()
    page.locator("[data-go=c]").click()
    page.wait_for_url("**/cluster/")
    assert watched.errors == []


def test_on_a_narrow_screen_subscriptions_of_one_name_are_told_apart(
    console: Console, new_page: Callable[..., Watched]
) -> None:
    page = new_page(viewport=NARROW).open("/subscriptions/")
    for topic in ("booking.created", "booking.changed"):
        row = page.get_by_role("row").filter(has_text="availability").filter(has_text=topic)
        expect(row.get_by_text(f"on {topic}")).to_be_visible()


def test_everything_can_be_read_without_scripts(console: Console, new_page: Callable[..., Watched]) -> None:
    watched = new_page(java_script_enabled=False)
    for path, text in (("/", "booking.cancelled"), ("/topics/", "booking.cancelled"), ("/cluster/", "fact-collector")):
        response = watched.page.goto(watched.base + path)
        assert response is not None
        assert response.ok
        assert text in watched.page.inner_text("main")
    watched.page.goto(f"{watched.base}/")
    watched.page.locator("details.menu > summary.button").click()
    watched.page.get_by_role("link", name=re.compile("Last 3 hours")).click()
    watched.page.wait_for_url("**/?range=3h")


@pytest.mark.whole
def test_the_picture_of_the_readme(
    console: Console, new_page: Callable[..., Watched], pictures: Path, request: pytest.FixtureRequest
) -> None:
    """``pytest tests/browser -k picture --pictures docs`` makes docs/overview.png, after a minute of bookings."""
    begun_ms = time.time_ns() // 1_000_000
    bookings = os.environ.get("BOOKINGS", "")
    posed = ["--speed", "12", "--bookings", bookings] if request.config.getoption("--pictures") else []
    played = console.installation.manage(
        "hotel_demo", *(posed or ["--fast", "--limit", "100"]), "--json", timeout_s=240
    )
    assert played.returncode == 0, played.stdout + played.stderr
    watched = new_page(viewport={"width": 1440, "height": 960})
    page = watched.open(f"/?from={begun_ms - 30_000}")
    expect(page.locator("[data-live-indicator]")).to_contain_text("Live")
    expect(page.locator(".figure [data-live=unsettled]")).to_have_text("0", timeout=60_000)
    page.reload()
    expect(page.locator(".chart canvas")).to_have_count(1)
    expect(page.locator("[data-live-indicator]")).to_contain_text("Live")
    page.screenshot(path=pictures / "overview.png")
    assert (pictures / "overview.png").stat().st_size > 20_000
