"""What stands on a live page is what a reload would show, while messages flow and die and a consumer stands still."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import psutil
import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import NARROW, Console, Watched
from tests.given_time import GivenTime

#: More than the six connections that a browser has for one host.
PAGES = (
    "/",
    "/topics/",
    "/topics/booking.created/",
    "/subscriptions/",
    "/subscriptions/booking.created/availability/",
    "/operations/",
    "/operations/1/",
    "/alerts/",
    "/cluster/",
)
#: So many at a time: each tab costs the machine its share.
MORE_PAGES = (
    "/operations/plan/redrive/?topic=booking.cancelled",
    "/alerts/rules/",
    "/topics/booking.created/settings/",
    "/jobs/",
    "/runs/",
    "/jobs/nodes/",
    "/jobs/tags/",
)
#: A page follows within a look of the stream and a refresh; ages and charts within a quarter of a minute.
FOLLOWS_S = 120
#: Of the machine's own time.
FROZEN_IS_TOLD_S = 10
#: How a page differs from its reload: lists of what stands here and there; ``null`` when in nothing. Times that count
#: by themselves are compared by their instant, what a list says on top of itself is not in the reload, and of the
#: cluster's measurements, taken anew for each reader, only the words.
DIFFERENCE = r"""async () => {
  const lines = (main) => {
    const copy = main.cloneNode(true);
    copy.querySelectorAll(".chart, [data-legend], [data-keep]").forEach((each) => each.remove());
    copy.querySelectorAll("time[data-ago]").forEach((time) => (time.textContent = time.dateTime));
    copy.querySelectorAll(".figure-spark svg, td svg").forEach((svg) => (svg.textContent = svg.innerHTML));
    const found = [];
    const walk = document.createTreeWalker(copy, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const text = walk.currentNode.data.trim().replace(/\s+/g, " ");
      const measured = location.pathname === "/cluster/" && /\d/.test(text);
      if (text) found.push(measured ? text.replace(/[\d.,]+( (µs|ms|s|m|h|KiB|MiB|GiB))*/g, "#") : text);
    }
    return found;
  };
  const answer = await (await fetch(location.href)).text();
  const there = lines(new DOMParser().parseFromString(answer, "text/html").querySelector("#content"));
  const here = lines(document.querySelector("#content"));
  const odd = (some, others) => some.filter((line, place) => line !== others[place]).slice(0, 5);
  return here.join("\n") === there.join("\n") ? null : [odd(here, there), odd(there, here)];
}"""


@pytest.fixture
def tabs(console: Console, watched: Watched, request: pytest.FixtureRequest) -> list[Page]:
    """Every page in a tab of its own, all of one browser."""
    opened = []
    for path in getattr(request, "param", PAGES):
        page = watched.page.context.new_page()
        page.goto(console.url + path)
        opened.append(page)
    return opened


def follow(tabs: list[Page], state: str) -> None:
    """Wait until no tab differs from its reload."""
    left = list(tabs)
    deadline = time.monotonic() + FOLLOWS_S
    while left := [page for page in left if page.evaluate(DIFFERENCE)]:
        if time.monotonic() > deadline:
            told = [f"{page.url}: {page.evaluate(DIFFERENCE)}" for page in left]
            raise AssertionError(f"{state}, these do not follow:\n" + "\n".join(told))


@contextlib.contextmanager
def frozen(console: Console) -> Iterator[None]:
    """The consumer stands still, as under a debugger or on a machine without memory."""
    halted = psutil.Process(console.installation.role("consumer")["pid"])
    whole = [halted, *halted.children(recursive=True)]
    for process in whole:
        os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in whole:
            # On a slow machine the supervisor may have taken it for deaf.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)


def test_every_live_page_is_what_a_reload_would_show(console: Console, tabs: list[Page]) -> None:
    for page in tabs:
        expect(page.locator("[data-live-indicator]")).to_contain_text("Live", timeout=60_000)
        page.evaluate("window.stayed = true")
    played = console.installation.manage("hotel_demo", "--limit", "160", "--fast", "--json", timeout_s=120)
    assert played.returncode == 0, played.stdout + played.stderr
    follow(tabs, "after messages flowed and died")
    subscription = tabs[PAGES.index("/subscriptions/booking.created/availability/")]
    consumer = tabs[0].locator(".strip a").filter(has_text="consumer")
    with frozen(console):
        since = GivenTime()
        expect(subscription.locator("main")).to_contain_text("No consumer runs it", timeout=90_000)
        expect(consumer).to_contain_text("none alive", timeout=90_000)
        assert since.elapsed_s() < FROZEN_IS_TOLD_S
        follow(tabs, "while the consumer stands still")
    expect(consumer).not_to_contain_text("none alive", timeout=60_000)
    follow(tabs, "when the consumer goes on")
    assert all(page.evaluate("window.stayed") for page in tabs)


@pytest.mark.parametrize("tabs", [MORE_PAGES], indirect=True)
def test_further_pages_likewise_while_messages_flow_and_jobs_run(console: Console, tabs: list[Page]) -> None:
    for page in tabs:
        expect(page.locator("[data-live-indicator]")).to_contain_text("Live", timeout=60_000)
    played = console.installation.manage("hotel_demo", "--limit", "170", "--fast", "--json", timeout_s=120)
    assert played.returncode == 0, played.stdout + played.stderr
    follow(tabs, "after messages died and jobs ran")


def test_a_form_being_filled_waits_and_says_from_when_it_is(console: Console, watched: Watched) -> None:
    page = watched.open("/subscriptions/booking.created/availability/")
    page.get_by_role("button", name="Pause…").click()
    page.fill("#pause-why", "a release")
    other = page.context.new_page()
    other.goto(f"{console.url}/subscriptions/booking.created/availability/")
    other.get_by_role("button", name="Pause…").click()
    other.fill("#pause-why", "somebody was quicker")
    other.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator(".page-head")).to_contain_text("somebody was quicker", timeout=60_000)
    expect(page.locator("#pause")).to_be_visible()
    expect(page.locator("#pause-why")).to_have_value("a release")
    expect(page.locator("#pause-why")).to_be_focused()
    expect(page.locator("#pause .as-of")).to_contain_text("follows when you are done")
    page.keyboard.press("Escape")
    expect(page.locator("#pause")).to_have_count(0, timeout=60_000)
    page.get_by_role("button", name="Resume…").click()
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("button", name="Pause…")).to_be_visible()


def test_a_list_being_read_counts_what_is_new_and_does_not_move(console: Console, watched: Watched) -> None:
    page = watched.open("/messages/")
    first = page.locator("tbody tr").first.inner_text()
    played = console.installation.manage("hotel_demo", "--limit", "20", "--fast", "--json", timeout_s=120)
    assert played.returncode == 0, played.stdout + played.stderr
    expect(page.locator(".as-of a")).to_contain_text("new", timeout=60_000)
    assert page.locator("tbody tr").first.inner_text() == first
    page.locator(".as-of a").click()
    page.wait_for_load_state()
    expect(page.locator(".as-of")).to_have_count(0)
    assert page.locator("tbody tr").first.inner_text() != first


def rewritten(page: Page, path: str, rows: Callable[[list[str]], list[str]]) -> None:
    """Every later answer to a refresh of ``path`` has these of its rows."""

    def answer(route: Route) -> None:
        if "hbus-panels" not in route.request.headers:
            return route.continue_()
        fetched = route.fetch()
        before, begin, rest = fetched.text().partition("<tbody>")
        table, end, after = rest.partition("</tbody>")
        found = re.findall(r"<tr.*?</tr>", table, re.DOTALL)
        return route.fulfill(response=fetched, body="".join([before, begin, *rows(found), end, after]))

    page.route(f"**{path}", answer)


def test_a_row_that_is_gone_is_struck_and_the_page_claims_no_more_than_is_true(
    console: Console, new_page: Callable[..., Watched]
) -> None:
    page = new_page().open("/messages/")
    indicator = page.locator("[data-live-indicator]")
    expect(indicator).to_have_attribute("title", re.compile("what a reload would show; ages"))
    rewritten(page, "/messages/", lambda rows: rows[1:])
    expect(page.locator("tbody tr").first).to_have_attribute("data-gone", "", timeout=60_000)
    expect(page.locator(".as-of")).to_contain_text("It has changed")
    expect(indicator).to_have_attribute("title", re.compile("but for what says from when it is"))
    assert page.locator("tbody tr[data-gone]").count() == 1


def test_a_count_says_of_when_it_is_and_what_stands_around_the_same_rows_follows(
    console: Console, new_page: Callable[..., Watched]
) -> None:
    page = new_page().page
    page.clock.install()
    page.goto(f"{console.url}/messages/")
    looked_at = 0

    def answer(route: Route) -> None:
        nonlocal looked_at
        looked_at += 1
        fetched = route.fetch()
        body = fetched.text().replace(", newest first", f", newest first · {looked_at} looked at")
        route.fulfill(response=fetched, body=body)

    page.route("**/messages/", answer)
    for number in (1, 2):
        page.clock.run_for(16_000)
        expect(page.locator(".pager")).to_contain_text(f"{number} looked at", timeout=60_000)
    page.unroute("**/messages/", answer)
    rewritten(page, "/messages/", lambda rows: rows[1:])
    counted = page.locator(".as-of [data-counted]")
    page.clock.run_for(16_000)
    expect(counted).to_contain_text("Counted at", timeout=60_000)
    first = counted.inner_text()
    page.clock.run_for(16_000)
    expect(counted).not_to_have_text(first, timeout=60_000)
    expect(page.locator(".as-of")).to_contain_text("It has changed")


def test_a_list_of_which_nothing_is_left_shows_that(console: Console, new_page: Callable[..., Watched]) -> None:
    page = new_page().open("/messages/")
    assert page.locator("tbody tr").count() > 3
    rewritten(page, "/messages/", lambda rows: [])
    expect(page.locator("tbody tr")).to_have_count(0, timeout=60_000)
    expect(page.locator(".as-of")).to_have_count(0)


def test_a_page_that_does_not_move_says_so(console: Console, new_page: Callable[..., Watched]) -> None:
    page = new_page().open("/new-topic/")
    indicator = page.locator("[data-live-indicator]")
    expect(indicator).to_contain_text("Still")
    expect(indicator).to_have_attribute("title", re.compile("What stands here is of"))


@pytest.mark.parametrize("width", [390, 1440])
def test_why_a_page_does_not_move_is_told_by_keys_and_by_touch_and_to_who_hears_it(
    console: Console, new_page: Callable[..., Watched], width: int
) -> None:
    page = new_page(viewport={"width": width, "height": 800}, has_touch=True).open("/new-topic/")
    indicator, why = page.locator("[data-live-indicator]"), page.locator("[data-live-why]")
    words = re.compile(r"Only the figures of the menu move by themselves\. What stands here is of \d")
    expect(indicator).to_have_accessible_description(words)
    expect(why).to_be_hidden()
    indicator.focus()
    page.keyboard.press("Enter")
    expect(why).to_be_visible()
    expect(why).to_have_text(words)
    box = why.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    page.keyboard.press("Escape")
    expect(why).to_be_hidden()
    indicator.tap()
    expect(why).to_be_visible()


def test_a_page_that_cannot_be_read_again_says_so(console: Console, new_page: Callable[..., Watched]) -> None:
    page = new_page().open("/topics/")
    expect(page.locator("[data-live-indicator]")).to_contain_text("Live")
    page.context.route("**/topics/", lambda route: route.fulfill(status=404, body="gone"))
    expect(page.locator("[data-live-indicator]")).to_contain_text("Behind", timeout=60_000)
    assert "cannot be read any more (404)" in (page.locator("[data-live-indicator]").get_attribute("title") or "")


def test_what_is_gone_is_said_where_one_reads_and_nothing_is_done_to_it(
    console: Console, new_page: Callable[..., Watched]
) -> None:
    page = new_page(viewport=NARROW).open("/topics/booking.cancelled/")
    pause = page.get_by_role("button", name="Pause…")
    expect(pause).to_be_enabled()
    page.context.route("**/topics/booking.cancelled/", lambda route: route.fulfill(status=404, body="gone"))
    said = page.locator("main").get_by_role("alert")
    expect(said).to_contain_text("This page cannot be read any more (404). Reload it. What stands", timeout=60_000)
    expect(pause).to_be_disabled()
    expect(page.locator(".live-word")).to_be_visible()
    page.context.unroute("**/topics/booking.cancelled/")
    expect(pause).to_be_enabled(timeout=60_000)
    expect(said).to_have_count(0)


def test_a_page_that_is_slow_to_be_read_says_that_it_is_behind(
    console: Console, new_page: Callable[..., Watched]
) -> None:
    page = new_page().open("/topics/")
    indicator = page.locator("[data-live-indicator]")
    expect(indicator).to_contain_text("Live")
    held: list[Route] = []
    page.context.route("**/topics/", lambda route: held.append(route))  # noqa: PLW0108 - a builtin takes no mark
    expect(indicator).to_contain_text("Behind", timeout=60_000)
    assert "takes long to be read" in (indicator.get_attribute("title") or "")
    while held:
        held.pop().continue_()
    page.context.unroute("**/topics/")
    expect(indicator).to_contain_text("Live", timeout=60_000)


#: Has the page hear what the test says instead of the stream.
HEAR_THE_TEST = "window.SharedWorker = function () { return { port: window.told = { postMessage() {} } }; };"


def tell(page: Page, changed: list[str], stale: str = "") -> None:
    standing = {"texts": {}, "stale": stale, "changed": changed}
    page.evaluate("standing => window.told.onmessage({ data: { say: 'standing', id: '1', standing } })", standing)


def test_a_page_read_while_the_store_was_away_is_read_again_before_it_says_live(
    console: Console, new_page: Callable[..., Watched]
) -> None:
    watched = new_page()
    page = watched.page
    page.add_init_script(HEAR_THE_TEST)
    page.clock.install()
    page.goto(f"{console.url}/topics/")
    indicator = page.locator("[data-live-indicator]")
    tell(page, [])
    expect(indicator).to_contain_text("Live")
    # It names nothing that the page shows.
    tell(page, ["store"])
    expect(indicator).to_contain_text("Behind")
    assert "The store went away or came back" in (indicator.get_attribute("title") or "")
    with page.expect_response("**/topics/"):
        page.clock.run_for(2_000)
    # A web process may remember for so long what it read before.
    expect(indicator).to_contain_text("Behind")
    with page.expect_response("**/topics/"):
        page.clock.run_for(2_000)
    expect(indicator).to_contain_text("Live")


def listening(console: Console, new_page: Callable[..., Watched], path: str) -> tuple[Page, list[Route]]:
    """A page that hears what the test says and whose clock stands still, and its readings, which are held."""
    page = new_page().page
    page.add_init_script(HEAR_THE_TEST)
    page.clock.install()
    page.goto(f"{console.url}{path}")
    held: list[Route] = []
    page.route(f"**{path}", lambda route: held.append(route))  # noqa: PLW0108 - a builtin takes no mark
    page.clock.pause_at(datetime.now() + timedelta(hours=1))  # noqa: DTZ005 - the clock of the browser
    page.evaluate("document.body.addEventListener('hbus:refreshed', () => { document.body.dataset.read = ''; })")
    return page, held


def asked(page: Page, held: list[Route], steps: int = 60) -> Route:
    """The next reading of the page, after at most so many half seconds of its clock."""
    for _ in range(steps):
        page.clock.run_for(500)
        if held:
            return held.pop()
    raise AssertionError("the page was not read again")


def test_a_page_that_hung_once_is_read_again_soon(console: Console, new_page: Callable[..., Watched]) -> None:
    page, held = listening(console, new_page, "/topics/")

    def read(route: Route) -> None:
        page.evaluate("delete document.body.dataset.read")
        route.continue_()
        expect(page.locator("body[data-read]")).to_have_count(1)

    # The first began before the clock leapt.
    for _ in range(2):
        read(asked(page, held))
    hung = asked(page, held)
    page.clock.run_for(11_000)
    read(hung)
    tell(page, ["topic:anything"])
    asked(page, held, 3).continue_()


def test_a_page_that_takes_long_is_read_at_once_when_somebody_falls_silent(
    console: Console, new_page: Callable[..., Watched]
) -> None:
    page, held = listening(console, new_page, "/subscriptions/")
    # The first began before the clock leapt.
    asked(page, held).continue_()
    expect(page.locator("body[data-read]")).to_have_count(1)
    for _ in range(3):
        page.evaluate("delete document.body.dataset.read")
        slow = asked(page, held)
        page.clock.run_for(1_400)
        slow.continue_()
        expect(page.locator("body[data-read]")).to_have_count(1)
    tell(page, ["roles"])
    page.clock.run_for(3_000)
    assert not held, "a tenth of the time is enough for that"
    tell(page, ["alive"])
    asked(page, held, 3).continue_()


def hear(page: Page, at_ms: int, of_ms: int, figure: str) -> None:
    """The stream tells of a look that began at ``of_ms`` and had ended at ``at_ms``."""
    standing = {"texts": {"published": figure}, "stale": "", "changed": [], "of": of_ms}
    said = {"say": "standing", "id": at_ms, "standing": standing, "age": 0}
    page.evaluate("said => window.told.onmessage({ data: said })", said)


def began(page: Page) -> int:
    return int(page.locator("body").get_attribute("data-began") or "0")


def test_a_page_that_hears_nothing_of_a_stream_that_is_open_says_that_it_is_behind(
    console: Console, new_page: Callable[..., Watched]
) -> None:
    page = new_page().page
    page.add_init_script(HEAR_THE_TEST)
    page.clock.install()
    page.goto(f"{console.url}/")
    indicator = page.locator("[data-live-indicator]")
    # What it hears of at its beginning is a look from before: of a poller that stands still, for example.
    hear(page, began(page) - 7 * 60_000, began(page) - 7 * 60_000, "99999")
    expect(indicator).to_contain_text("Live")
    expect(page.locator("[data-live=published]")).not_to_have_text("99999")
    for _ in range(21):
        page.clock.run_for(1_000)
    expect(indicator).to_contain_text("Behind")
    assert re.search(r"Nothing was heard since [\d:]+ of what changes", indicator.get_attribute("title") or "")
    day_ms = 86_400_000
    hear(page, began(page) + day_ms, began(page) - 1, "88888")
    expect(indicator).to_contain_text("Live")
    expect(page.locator("[data-live=published]")).not_to_have_text("88888")
    hear(page, began(page) + day_ms, began(page) + day_ms, "77777")
    expect(page.locator("[data-live=published]")).to_have_text("77777")


def test_a_stream_that_hangs_on_its_way_is_tried_anew(console: Console, new_page: Callable[..., Watched]) -> None:
    page = new_page().page
    # Then each page has a stream of its own, and the test sees what it asks for.
    page.add_init_script("delete window.SharedWorker")
    page.clock.install()
    held: list[Route] = []
    page.route("**/live/**", lambda route: held.append(route))  # noqa: PLW0108 - a builtin takes no mark
    page.goto(f"{console.url}/new-topic/")
    expect(page.locator("[data-live-indicator]")).to_contain_text("Not live")
    page.clock.run_for(15_000)
    assert len(held) == 1
    with page.expect_request("**/live/**"):
        page.clock.run_for(8_000)
