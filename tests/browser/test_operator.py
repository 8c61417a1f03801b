"""An operator's evening: a receiver refuses, holds messages up and is mended; every step is clicked.

The receiver is a webhook of the test's own, so that it does what the story asks for, when it asks for it.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console, Watched

#: A topic that is asked for by name, and the subscription of the receiver.
TOPIC, AGAIN, GROUP = "room.changed", "room.again", "pms"
_PUBLISH = """
import sys
from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem
from hbus_console.publishing.producer import shared_producer
from hbus_console.access.permissions import SYSTEM
from hbus_console.subscriptions.services import SubscriptionDraft, create_subscription
from hbus_console.topics.models import Topic
from hbus_console.topics.services import TopicDraft, create_topic
if not Topic.objects.filter(name="{topic}").exists():
    for name in ("{topic}", "{again}"):
        create_topic(SYSTEM, TopicDraft(name=name, owner="Distribution"))
    create_subscription(SYSTEM, SubscriptionDraft(
        "{topic}", "{group}", "Distribution", handler="webhook", webhook_url="{url}", max_attempts=1,
        breaker_failures=0,
    ))
rooms = range({first}, {first} + {count})
items = [BatchItem({{"room": n, "state": "clean"}}, PublishOptions(key=f"room/{{n}}")) for n in rooms]
shared_producer().publish_batch("{topic}", items)
"""


@dataclass
class Receiver:
    """Refuses for good while ``refuses``, and answers no call while ``gate`` is shut."""

    refuses: bool = True
    gate: threading.Event = field(default_factory=threading.Event)
    url: str = ""
    #: Rooms as they arrived, with what the calls were for.
    seen: list[int] = field(default_factory=list)

    def answer(self, body: bytes) -> int:
        self.seen.append(json.loads(body)["data"]["room"])
        self.gate.wait(60)
        return 422 if self.refuses else 200


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    told = Receiver()
    told.gate.set()

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status = told.answer(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing into the output of the tests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    told.url = f"http://127.0.0.1:{server.server_address[1]}/rooms"
    yield told
    told.gate.set()
    server.shutdown()
    server.server_close()


def publish(console: Console, receiver: Receiver, first: int, count: int) -> None:
    script = _PUBLISH.format(topic=TOPIC, again=AGAIN, group=GROUP, url=receiver.url, first=first, count=count)
    done = console.installation.manage("shell", "--no-imports", "-c", script)
    assert done.returncode == 0, done.stderr


def dead_letters(watched: Watched, count: int) -> Page:
    """The page of the group's dead letters, once the keeper has taken over so many."""
    page = watched.page
    for _ in range(60):
        watched.open(f"/dead-letters/?subscription={GROUP}")
        if page.get_by_text(f"{count} messages in 1 group").count():
            break
        page.wait_for_timeout(500)
    page.locator("th.cause a").click()
    return page


def steer(page: Page, verb: str, state: str) -> None:
    page.get_by_role("button", name=f"{verb}…").click()
    page.fill(f"#{verb.lower()}-why", "the partner asks for it")
    page.get_by_role("button", name=f"{verb} it").click()
    expect(page.locator("#progress .panel-head")).to_contain_text(state, timeout=60_000)


def test_dead_letters_are_redriven_in_all_the_ways_there_are(
    watched: Watched, console: Console, receiver: Receiver
) -> None:
    # Given fourteen messages that died of one cause, and a receiver that is mended since
    publish(console, receiver, first=101, count=14)
    page = dead_letters(watched, 14)
    receiver.refuses = False

    # A selection: there is none at first; its dry run counts and samples, and changes nothing
    expect(page.get_by_role("button", name="Redrive chosen…")).to_be_disabled()
    for box in page.locator("input[name=letter]").all()[:2]:
        box.check()
    page.get_by_role("button", name="Redrive chosen…").click()
    expect(page.locator("h1")).to_contain_text("Redrive 2 chosen dead letters")
    expect(page.get_by_label("Samples, table").locator("tbody tr")).to_have_count(2)
    page.fill("#reason", "two to try it with")
    page.get_by_role("button", name="Redrive 2").click()
    results = page.locator("#progress tbody tr")
    expect(results).to_have_count(2, timeout=60_000)
    expect(results.first).to_contain_text("redriven")
    # Ended, it offers neither a pause nor a cancel
    expect(page.get_by_role("button", name="Cancel…")).to_have_count(0, timeout=60_000)

    # The group, one a second: it is held, goes on, and is ended
    page = dead_letters(watched, 12)
    page.get_by_role("link", name="Redrive 12…").click()
    plan = page.url
    page.select_option("#rate", "1")
    page.fill("#reason", "the rest of them")
    page.get_by_role("button", name="Redrive 12").click()
    expect(results.first).to_be_visible(timeout=60_000)
    steer(page, "Pause", "paused")
    # Another dry run says that the first has them, leads there, and offers nothing
    page.goto(plan)
    expect(page.locator("main")).to_contain_text(re.compile(r"of these are being redriven by operation \d+ \(held\)"))
    expect(page.get_by_role("button", name=re.compile(r"Redrive \d"))).to_have_count(0)
    page.get_by_role("link", name="Open it").click()
    steer(page, "Resume", "running")
    steer(page, "Cancel", "cancelled")

    # And one by hand, edited: the audit log shows the difference
    watched.open(f"/dead-letters/?subscription={GROUP}")
    page.locator("th.cause a").click()
    page.locator("tr.sub a.mono").first.click()
    page.get_by_role("link", name="Edit first…").click()
    payload = page.input_value("#payload")
    page.fill("#payload", payload.replace("clean", "occupied"))
    page.fill("#reason", "a guest is in it")
    page.get_by_role("button", name="Redrive edited").click()
    expect(page.locator("main")).to_contain_text("Redriven to pms as")
    watched.open("/audit/")
    page.locator("tbody tr", has_text="a guest is in it").locator("a").last.click()
    change = page.locator("tr", has_text="payload.state")
    expect(change.locator("del")).to_have_text("clean")
    expect(change.locator("ins")).to_have_text("occupied")


def test_a_drain_says_when_nothing_is_in_flight_any_more(
    watched: Watched, console: Console, receiver: Receiver
) -> None:
    # Given a message that its handler holds
    receiver.refuses = False
    receiver.gate.clear()
    try:
        publish(console, receiver, first=201, count=1)
        deadline = time.monotonic() + 120
        while 201 not in receiver.seen:
            assert time.monotonic() < deadline, "no consumer has taken it"
            time.sleep(0.05)
        page = watched.open(f"/subscriptions/{TOPIC}/{GROUP}/")
        page.get_by_role("button", name="Drain…").click()
        page.fill("#drain-why", "a release at nine")
        page.get_by_role("button", name="Drain", exact=True).click()
        # When it is drained, the page counts what is still at work, and where
        expect(page.locator("main")).to_contain_text(re.compile(r"Draining: 1 in flight \(1 on \S+\)"), timeout=60_000)
        expect(page.locator("h1")).to_contain_text("draining")
    finally:
        receiver.gate.set()
    # Then it says by itself that it stands still, and so it stays
    expect(page.locator("main")).to_contain_text("Drained: nothing is in flight", timeout=60_000)
    publish(console, receiver, first=202, count=1)
    watched.open(f"/subscriptions/{TOPIC}/{GROUP}/")
    expect(page.locator("h1")).to_contain_text("paused")
    assert 202 not in receiver.seen
    page.get_by_role("button", name="Resume…").click()
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.locator("main")).to_contain_text("is handed messages again")


def test_a_replay_by_key_into_another_topic_and_its_way_through_the_audit_log(
    watched: Watched, console: Console, receiver: Receiver
) -> None:
    receiver.refuses = False
    publish(console, receiver, first=301, count=3)
    # Given a form without a target: it is refused, and stands there as it was
    page = watched.open(f"/replays/{TOPIC}/")
    page.fill("#key", "room/302")
    page.get_by_role("button", name="Dry run…").click()
    expect(page.locator("main")).to_contain_text("into a subscription of the topic, or into another topic")
    expect(page.locator("#key")).to_have_value("room/302")

    # When it names another topic
    page.get_by_role("button", name="Test this filter").click()
    expect(page.locator("#matches")).to_contain_text("matched 1, stopped because")
    page.select_option("#into_topic", AGAIN)
    page.get_by_role("button", name="Dry run…").click()
    page.fill("#reason", "a new reader wants to see it")
    page.get_by_role("button", name="Replay 1").click()
    expect(page.locator("#progress tbody tr")).to_have_count(1, timeout=60_000)

    # Then its audit entry leads on to the copy, which names its original
    page.locator("#facts dt:has-text('audit entry') + dd a").click()
    became = page.get_by_label("What became of it")
    expect(became).to_contain_text("1 done")
    became.locator("tbody td a.mono").click()
    envelope = page.locator("section.panel", has=page.get_by_role("heading", name="Envelope", exact=True))
    expect(envelope).to_contain_text(AGAIN, timeout=60_000)
    expect(page.locator("main")).to_contain_text("replayed from")
