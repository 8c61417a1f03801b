from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from hbus_console.access.permissions import Actor
from hbus_console.accounts.models import User
from hbus_console.messages.models import LedgerMessage
from hbus_console.overview.search import find
from hbus_console.ui.finding import MOST
from tests.hbus_console.ui.conftest import subscription, topic

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def message(message_id: str, about: str, key: str = "", correlation: str = "") -> None:
    LedgerMessage.objects.create(
        message_id=message_id,
        topic=about,
        type=about,
        source="/tests",
        key=key,
        correlation_id=correlation,
        causation_id="",
        trace_id="",
        position="1-0",
        size=1,
        published_ms=1,
    )


def titles(who: Actor, text: str) -> dict[str, list[str]]:
    return {group.title: [hit.text for hit in group.hits] for group in find(who, text)}


def test_it_finds_topics_subscriptions_and_messages_by_id_key_and_correlation(admin_actor: Actor) -> None:
    subscription(topic("booking.created"), "booking-mirror")
    message("01K9ZC3M8V5T", "booking.created", key="booking/48213", correlation="req-9f21c0")
    assert titles(admin_actor, "BOOKING") == {"Topics": ["booking.created"], "Subscriptions": ["booking-mirror"]}
    assert titles(admin_actor, "01K9ZC") == {"Messages by id": ["01K9ZC3M8V5T"]}
    assert titles(admin_actor, "booking/48213") == {"Messages by key": ["01K9ZC3M8V5T"]}
    assert titles(admin_actor, " req-9f21c0 ") == {"Messages by correlation id": ["01K9ZC3M8V5T"]}
    assert find(admin_actor, "nothing of the kind") == find(admin_actor, "  ") == []


def test_what_one_may_not_see_is_not_found(viewer_actor: Actor) -> None:
    subscription(topic("stay.completed"), "loyalty")
    topic("booking.created")
    message("01K9ZC3M8V5T", "stay.completed", key="k-1")
    assert titles(viewer_actor, "stay") == titles(viewer_actor, "loyal") == titles(viewer_actor, "01K9ZC3M8V5T") == {}
    assert titles(viewer_actor, "k-1") == {}
    assert titles(viewer_actor, "booking") == {"Topics": ["booking.created"]}


def test_more_than_can_be_shown_is_said(admin_actor: Actor, page: Client) -> None:
    for number in range(MOST + 1):
        topic(f"booking.{number}")
    (group,) = find(admin_actor, "booking")
    assert len(group.hits) == MOST
    assert group.more
    assert f"More than {MOST} match" in page.get("/search/?q=booking").content.decode()


def test_the_box_gets_a_fragment_and_a_visitor_a_page(page: Client) -> None:
    topic("booking.created")
    fragment = page.get("/search/?q=booking", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in fragment
    assert "booking.created" in fragment
    whole = page.get("/search/?q=booking").content.decode()
    assert "<html" in whole
    assert "booking.created" in whole


def test_what_was_typed_is_escaped(page: Client) -> None:
    html = page.get("/search/", {"q": "<script>alert(1)</script>"}).content.decode()
    assert "<script>alert" not in html
    assert "&lt;script&gt;" in html


def test_it_is_a_few_queries_however_much_there_is(
    page: Client, django_assert_max_num_queries: Callable[..., object]
) -> None:
    for number in range(50):
        message(f"abc{number:03}", "booking.created", key="abc", correlation="abc")
    with django_assert_max_num_queries(14):  # type: ignore[attr-defined]
        page.get("/search/?q=abc", headers={"HX-Request": "true"})


def test_it_needs_a_sign_in(viewer: User) -> None:
    assert Client().get("/search/?q=a").status_code == 302
