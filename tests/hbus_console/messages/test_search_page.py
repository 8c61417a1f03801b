from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from engine.bus.options import PublishOptions
from hbus_console.messages.models import LedgerMessage
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, store
from tests.hbus_console.messages.conftest import AT, BOOKING, TOPIC, event, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
SignIn = Callable[..., Client]


@pytest.fixture
def sent(book: Callable[[], None]) -> str:
    message_id = publish(key="booking/48213", correlation_id="req-9f21c0")
    shared_producer().publish("stay.completed", {}, PublishOptions(key="other"))
    book()
    return message_id


def test_it_lists_the_newest_with_what_became_of_them(sign_in: SignIn, sent: str) -> None:
    page = sign_in().get("/messages/").content.decode()
    assert f'title="{sent}"' in page
    assert "The ledger holds 2 messages and reaches back to" in page
    assert "not handled yet" in page
    assert "nobody subscribes" in page


def test_what_one_is_done_with_and_another_is_not_waits_elsewhere(sign_in: SignIn, sent: str) -> None:
    topic = Topic.objects.get(name=TOPIC)
    groups = list(topic.subscriptions.order_by("group").values_list("group", flat=True))
    other = Subscription.objects.create(topic=topic, group="zz-late", team=topic.team)
    Subscription.objects.filter(pk=other.pk).update(created_at=topic.created_at)
    at = LedgerMessage.objects.get(message_id=sent).published_ms
    for group in groups:
        event(sent, "settled", at - AT + 9, attempt=1, topic=TOPIC, subscription=group)
    client = sign_in()
    assert "waiting elsewhere" in client.get(f"/messages/?id={sent}").content.decode()
    event(sent, "settled", at - AT + 12, attempt=1, topic=TOPIC, subscription=other.group)
    assert "waiting elsewhere" not in client.get(f"/messages/?id={sent}").content.decode()


@pytest.mark.parametrize(
    "query", ["id={}", "key=booking/48213", "correlation=req-9f21c0", "topic=booking.changed", "type=booking.changed"]
)
def test_each_way_in_finds_the_one(sign_in: SignIn, sent: str, query: str) -> None:
    page = sign_in().get(f"/messages/?{query.format(sent)}").content.decode()
    assert page.count('<th scope="row"') == 1
    assert f'title="{sent}"' in page


def test_what_is_named_exactly_is_found_whatever_its_age(sign_in: SignIn, sent: str) -> None:
    long_ago = "from=2020-01-01T00:00&to=2020-01-02T00:00"
    client = sign_in()
    assert "Nothing published in this time was found" in client.get(f"/messages/?{long_ago}").content.decode()
    assert "No message fits" in client.get(f"/messages/?key=booking/48213&{long_ago}").content.decode()
    assert sent in client.get("/messages/?key=booking/48213").content.decode()


def test_a_scope_hides_the_rest(sign_in: SignIn, sent: str) -> None:
    page = sign_in("viewer", "stay.*").get("/messages/").content.decode()
    assert sent not in page
    assert "stay.completed" in page
    assert "<option>booking.changed" not in page


def test_a_topics_log_is_read_masked_and_without_consuming(sign_in: SignIn, sent: str) -> None:
    page = sign_in().get(f"/messages/?in=log&topic={TOPIC}").content.decode()
    assert sent in page
    assert "masked · personal" in page
    assert "Ana Lima" not in page
    assert "peeked at, not consumed" in page
    assert bus.admin().lag(TOPIC, "billing").waiting == 1


def test_a_payload_search_says_how_far_it_looked(sign_in: SignIn, sent: str) -> None:
    publish({**BOOKING, "room": {"code": "SGL"}})
    page = sign_in().get(f"/messages/?in=log&topic={TOPIC}&field=room.code%3DDBL-SEA").content.decode()
    assert "Scanned 2, matched 1" in page
    assert "Stopped because the log ends here." in page


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("field=room%3DX", "Choose the topic"),
        (f"in=log&topic={TOPIC}&field=room", "field=value"),
        (f"in=log&topic={TOPIC}&field=guest.name%3DAna", "masked"),
        ("cursor=made-up", "Start from the first page"),
        ("in=log&topic=nobody.knows", "no topic"),
    ],
)
def test_bad_input_is_shown_on_the_page(sign_in: SignIn, sent: str, query: str, words: str) -> None:
    answer = sign_in().get(f"/messages/?{query}")
    assert answer.status_code == 400
    assert words in answer.content.decode()


def test_the_log_s_tab_asks_for_a_topic_and_refuses_nothing(sign_in: SignIn, sent: str) -> None:
    answer = sign_in().get("/messages/?in=log")
    assert answer.status_code == 200
    assert "Choose the topic whose log shall be read" in answer.content.decode()


def test_an_empty_ledger_says_what_to_do(sign_in: SignIn) -> None:
    page = sign_in().get("/messages/").content.decode()
    assert "No message yet" in page
    assert "make demo" in page


def test_a_ledger_that_is_off_says_so(sign_in: SignIn, settings: pytest.FixtureRequest) -> None:
    settings.HBUS_LEDGER = False  # type: ignore[attr-defined]
    page = sign_in().get("/messages/").content.decode()
    assert "The ledger is switched off" in page
    assert "No message yet" not in page


def test_a_store_that_is_away_is_said(sign_in: SignIn, sent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "")
    store.close()
    monkeypatch.setattr(store.settings, "REDIS_URL", "redis://127.0.0.1:1/0")
    answer = sign_in().get(f"/messages/?in=log&topic={TOPIC}")
    assert answer.status_code == 503
    assert "cannot be reached" in answer.content.decode() or "refused" in answer.content.decode()


def test_nobody_signed_in_is_sent_to_the_door(client: Client) -> None:
    answer = client.get("/messages/")
    assert (answer.status_code, answer.url) == (302, "/login/?next=%2Fmessages%2F")  # type: ignore[attr-defined]
