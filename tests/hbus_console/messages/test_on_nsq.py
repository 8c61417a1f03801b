"""nsqd tells no position of what it takes: what it carried is told as published and handled all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from hbus_console.access.permissions import SYSTEM
from hbus_console.messages.models import LedgerMessage
from hbus_console.subscriptions import services as subscriptions
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.topics import services as topics
from hbus_console.topics.models import Topic
from hbus_console.topics.services import TopicDraft
from hbus_console.wiring import bus
from tests.hbus_console.messages.conftest import AT, TOPIC, event, message, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
SignIn = Callable[..., Client]

ON_NSQ = "invoice.drafted"


@pytest.fixture
def sent(book: Callable[[], None], settings: Settings, nsqd_url: str, django_capture_on_commit_callbacks: Any) -> str:
    """A message that nsqd took, for one subscription."""
    settings.NSQD_URL = (nsqd_url,)
    with django_capture_on_commit_callbacks(execute=True):
        topics.create_topic(SYSTEM, TopicDraft(ON_NSQ, "Reservations", transport="nsq", priorities=False))
        draft = SubscriptionDraft(topic=ON_NSQ, group="billing", owner="Reservations")
        subscriptions.create_subscription(SYSTEM, draft)
    message_id = publish(topic=ON_NSQ)
    bus.admin("nsq").delete_topic(ON_NSQ)
    book()
    return message_id


def test_page_and_api_tell_that_it_was_published_and_handled(sign_in: SignIn, sent: str) -> None:
    # Given it was published a moment ago
    client = sign_in()
    assert list(client.get(f"/messages/{sent}").context["badges"]) == [("warn", "waiting")]

    # When its subscription has handled it
    at = LedgerMessage.objects.get(message_id=sent).published_ms
    event(sent, "settled", at - AT + 9, attempt=1, topic=ON_NSQ)

    # Then page, answer and list say so, and nothing of a due time
    answer = client.get(f"/messages/{sent}")
    assert list(answer.context["badges"]) == [("ok", "settled")]
    page = answer.content.decode()
    assert "Published by" in page
    assert "shows no message twice" in page
    body = client.get(f"/api/v1/messages/{sent}").json()
    assert [moment["kind"] for moment in body["timeline"]] == ["published", "settled"]
    assert "shows no message twice" in body["gone"]
    assert body["ledger"]["due_at"] is None
    row = client.get(f"/messages/?id={sent}&topic={ON_NSQ}").content.decode()
    assert "settled by 1" in row
    for words in (page, row):
        assert "due " not in words
        assert "delayed" not in words


def test_after_its_topic_moved_it_is_not_looked_for_in_the_log(sign_in: SignIn, sent: str) -> None:
    Topic.objects.filter(name=ON_NSQ).update(transport="redis_stream")
    assert "shows no message twice" in sign_in().get(f"/api/v1/messages/{sent}").json()["gone"]


@pytest.mark.usefixtures("installation")
def test_only_what_nobody_has_had_waits_for_its_due_time(sign_in: SignIn) -> None:
    """What tells of the publish may be lost with its process."""
    message("m1", AT, position="", due_ms=AT + 60_000)
    client = sign_in()
    assert ("info", "delayed") in list(client.get("/messages/m1").context["badges"])
    assert "is not published yet, or nobody has told so" in client.get("/api/v1/messages/m1").json()["gone"]

    for group in ("billing", "partner-sync"):
        event("m1", "settled", 60_005, group)
    assert list(client.get("/messages/m1").context["badges"]) == [("ok", "settled")]
    assert "due " not in client.get(f"/messages/?id=m1&topic={TOPIC}").content.decode().partition('class="fate"')[2]


def test_what_was_delayed_and_then_taken_by_nsqd_does_not_wait(sign_in: SignIn) -> None:
    message("m1", AT + 60_000, position="", due_ms=AT + 59_900, stored_us=900)
    event("m1", "delayed", 0, "", due_ms=AT + 59_900)
    told = sign_in().get("/api/v1/messages/m1/timeline").json()
    assert [moment["kind"] for moment in told["results"]] == ["delayed", "published"]
