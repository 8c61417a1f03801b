"""What is refused when it is due is told on its page, in lists and by the API, until it has another end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from engine.bus import producer
from engine.bus.delay_mover import DelayMover
from engine.core.clock import ManualClock, SystemClock, to_datetime
from hbus_console.access.permissions import SYSTEM
from hbus_console.messages import in_log
from hbus_console.messages.models import LedgerEvent
from hbus_console.messages.outcomes import Outcome, outcomes
from hbus_console.operations.outcomes import Made
from hbus_console.publishing.producer import shared_producer
from hbus_console.subjects import readable
from hbus_console.topics import services as topics
from hbus_console.wiring import bus
from tests.hbus_console.messages.conftest import TOPIC, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

Page = Callable[[str], str]


class Passing:
    """The mover, and the time as the delay path sees it."""

    def __init__(self, book: Callable[[], None]) -> None:
        self.clock = ManualClock(SystemClock().now_ms())
        self._book = book

    def by(self, seconds: float) -> None:
        """Let so much pass, and what is due then be moved and booked."""
        self.clock.advance(seconds)
        bus.delays()._clock = self.clock
        DelayMover(bus.delays(), shared_producer).tick()
        self._book()
        bus.delays()._clock = self.clock


@pytest.fixture
def passing(book: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> Passing:
    made = Passing(book)
    # Of the producer as well: what is due by one of them and not by the other is kept again.
    monkeypatch.setattr(producer, "SystemClock", lambda: made.clock)
    return made


@pytest.fixture
def page(sign_in: Callable[..., Client]) -> Page:
    return lambda address: " ".join(sign_in("admin").get(address).content.decode().split())


def limit(max_bytes: int, topic: str = TOPIC) -> None:
    topics.change_topic(SYSTEM, topic, {"max_bytes": max_bytes}, "a trial")


def large(topic: str = TOPIC, **options: Any) -> str:
    return publish({"text": "x" * 3_000}, topic=topic, delay_s=1, **options)


def kinds_of(message_id: str) -> list[str]:
    return list(
        LedgerEvent.objects.filter(message_id=message_id).order_by("at_ms", "pk").values_list("kind", flat=True)
    )


def test_it_is_told_while_it_lasts_and_published_once_the_limit_is_raised(
    passing: Passing, page: Page, sign_in: Callable[..., Client]
) -> None:
    refused = large()
    limit(1_024)
    passing.by(2)
    life = page(f"/messages/{refused}")
    assert "refused when due</span>" in life
    assert "ago and is refused: The envelope is too large: topic " in life
    assert "topic &#x27;booking.changed&#x27; takes 1,024 bytes. It is kept, and tried again until it is taken." in life
    assert "Due, and refused" in life
    assert "It waits for its due time" not in life
    assert "refused when due" in page("/messages/")
    (listed,) = sign_in("admin").get("/api/v1/messages", {"id": refused}).json()["results"]
    assert listed["outcome"]["refused_when_due"].endswith("takes 1,024 bytes.")
    looked = in_log.look(SYSTEM, TOPIC, refused)
    assert (looked.stored, looked.said.startswith("It is stored: it was due, is refused, and is tried again: The")) == (
        True,
        True,
    )
    for _ in range(3):
        passing.by(600)
    assert kinds_of(refused) == ["delayed", "due_refused"]
    limit(100_000)
    passing.by(600)
    life = page(f"/messages/{refused}")
    assert "refused when due</span>" not in life
    assert "Due, and published for" in life
    (listed,) = sign_in("admin").get("/api/v1/messages", {"id": refused}).json()["results"]
    assert listed["outcome"]["refused_when_due"] == ""


def test_one_that_is_due_and_not_taken_yet_is_not_said_to_wait_for_its_time(
    passing: Passing, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = publish(delay_s=1)
    passing._book()
    later = ManualClock(SystemClock().now_ms() + 60_000)
    monkeypatch.setattr("hbus_console.messages.message_trace._clock", later)
    life = page(f"/messages/{kept}")
    assert "ago and is not published yet, or nobody has told so. It is kept, and tried again." in life
    assert "It waits for its due time" not in life


def test_what_is_accepted_anew_after_it_was_cancelled_is_not_refused(passing: Passing, page: Page) -> None:
    refused = large(message_id="again")
    limit(1_024)
    passing.by(2)
    assert bus.delays().cancel(TOPIC, "/hbus/console", refused).value == "cancelled"
    publish({"n": 1}, delay_s=3_600, message_id="again")
    passing._book()
    LedgerEvent.objects.filter(kind="delayed").order_by("-pk").update(at_ms=passing.clock.now_ms() + 1)
    assert "refused when due" not in page("/messages/again")
    assert "refused when due" not in page("/messages/")


def test_what_went_with_its_topic_is_told_as_cancelled_at_once(
    passing: Passing, page: Page, django_capture_on_commit_callbacks: Any
) -> None:
    waits = publish(topic="stay.completed", delay_s=3_600)
    with django_capture_on_commit_callbacks(execute=True):
        topics.delete_topic(SYSTEM, "stay.completed", "stay.completed", "over")
    passing._book()
    life = page(f"/messages/{waits}")
    assert "Cancelled before its time came" in life
    assert "Its topic was deleted." in life
    assert 'class="badge act">cancelled</span>' in life
    assert 'class="badge act">cancelled</span>' in page("/messages/")


def test_one_that_was_cancelled_before_anybody_had_it_is_decided_for_every_subscription(passing: Passing) -> None:
    at = to_datetime(SystemClock().now_ms())
    for number, (kind, outcome) in enumerate((("cancelled", Outcome.UNHANDLED), ("deduplicated", Outcome.WAITING))):
        LedgerEvent.objects.create(
            message_id=f"m{number}", kind=kind, topic=TOPIC, subscription="", at_ms=1, source="/s"
        )
        made = Made(readable("message", TOPIC, f"m{number}"), at, at, {"source": "/s", "subscription": "billing"})
        assert outcomes([made])[0].outcome == outcome
