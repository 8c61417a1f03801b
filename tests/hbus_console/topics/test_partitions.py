"""Partitions of a topic: how many it gets, when it may have more, and where they are said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from engine.bus.options import PublishOptions
from engine.bus.partitions import Partitioned, partition_of
from engine.core.errors import BadInput, Conflict
from hbus_console.access.permissions import SYSTEM
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions import services as subscriptions
from hbus_console.subscriptions.reconcile import ensure_transport_objects
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.topics import services as topics
from hbus_console.topics.models import Topic
from hbus_console.topics.services import TopicDraft
from hbus_console.wiring import bus
from tests.hbus_console.topics.conftest import EDITOR

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys", "team")]

Committed = Callable[[Callable[[], object]], None]


def in_store(name: str) -> int:
    transport = bus.transport()
    assert isinstance(transport, Partitioned)
    return transport.partitions(name)


@pytest.fixture
def ordered(committed: Committed) -> Topic:
    committed(lambda: topics.create_topic(EDITOR, TopicDraft("stay.changed", "Reservations", ordering="key")))
    return Topic.objects.get(name="stay.changed")


def test_a_topic_ordered_by_key_gets_eight_and_others_one(ordered: Topic, topic: Topic) -> None:
    assert (ordered.partitions, in_store(ordered.name)) == (8, 8)
    assert (topic.partitions, in_store(topic.name)) == (1, 1)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"partitions": 4}, "partitions"),
        ({"ordering": "key", "partitions": 0}, "partitions"),
        ({"ordering": "key", "partitions": 257}, "partitions"),
        ({"ordering": "key", "partitions": "many"}, "partitions"),
    ],
)
def test_partitions_that_cannot_be_are_refused_at_the_field(values: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        topics.create_topic(EDITOR, TopicDraft("stay.changed", "Reservations", **values))
    assert refused.value.field == field


def test_an_empty_topic_may_get_more_with_all_its_groups(ordered: Topic, committed: Committed) -> None:
    draft = SubscriptionDraft(ordered.name, "billing", "Reservations", on_failed_head="park")
    committed(lambda: subscriptions.create_subscription(EDITOR, draft))
    committed(lambda: topics.change_topic(EDITOR, ordered.name, {"partitions": 12}))
    assert in_store(ordered.name) == 12
    transport = bus.transport()
    assert isinstance(transport, Partitioned)
    assert len(transport.owners(ordered.name, "billing")) == 12


def test_a_topic_that_holds_messages_keeps_its_number(ordered: Topic) -> None:
    shared_producer().publish(ordered.name, {"n": 1}, PublishOptions(key="hotel-1"))
    with pytest.raises(Conflict) as refused:
        topics.change_topic(EDITOR, ordered.name, {"partitions": 12})
    assert refused.value.field == "partitions"
    assert "could be handled out of order" in refused.value.what
    assert in_store(ordered.name) == 8


def test_partitions_never_become_fewer_and_a_topic_that_has_them_stays_ordered(ordered: Topic) -> None:
    with pytest.raises(Conflict, match="cannot have fewer"):
        topics.change_topic(EDITOR, ordered.name, {"partitions": 4})
    with pytest.raises(BadInput, match="Only a topic ordered by key"):
        topics.change_topic(EDITOR, ordered.name, {"ordering": "none"})


def test_a_message_goes_to_the_partition_of_its_key(ordered: Topic) -> None:
    for key in ("hotel-1", "hotel-2", "hotel-3"):
        receipt = shared_producer().publish(ordered.name, {}, PublishOptions(key=key))
        partition = partition_of(key, "", 8)
        assert receipt.position.partition("p")[2] == (str(partition) if partition else "")


def test_a_store_that_lost_the_number_gets_it_again(ordered: Topic, committed: Committed) -> None:
    committed(
        lambda: subscriptions.create_subscription(EDITOR, SubscriptionDraft(ordered.name, "billing", "Reservations"))
    )
    bus.admin().delete_topic(ordered.name)
    assert in_store(ordered.name) == 1
    ensure_transport_objects()
    assert in_store(ordered.name) == 8
    assert bus.admin().lag(ordered.name, "billing").unsettled == 0


def test_the_api_and_the_page_say_and_take_them(ordered: Topic, calling: Callable[..., Any]) -> None:
    call = calling()
    assert call("GET", f"topics/{ordered.name}").json()["partitions"] == 8
    body = {"name": "room.moved", "owner": "Reservations", "ordering": "key", "partitions": 3}
    assert call("POST", "topics", body).json()["partitions"] == 3
    made = call(
        "POST", "topics/room.moved/subscriptions", {"group": "b", "owner": "Reservations", "on_failed_head": "pass"}
    )
    assert made.json()["on_failed_head"] == "pass"
    refused = call(
        "POST", "topics/room.moved/subscriptions", {"group": "c", "owner": "Reservations", "on_failed_head": "x"}
    )
    assert (refused.status_code, refused.json()["field"]) == (422, "on_failed_head")


def test_a_policy_set_in_code_holds_until_a_person_sets_another(ordered: Topic) -> None:
    from engine.bus import handlers

    try:
        handlers.subscription(topic=ordered.name, group="billing", on_failed_head="park")(_handler)
        subscriptions.sync_registrations()
        row = subscriptions.subscription(ordered.name, "billing")
        assert row.on_failed_head == "park"
        changed = subscriptions.change_subscription(SYSTEM, ordered.name, "billing", {"on_failed_head": "pass"})
        assert changed.held_fields == ["on_failed_head"]
    finally:
        handlers.clear()


def _handler(event: dict[str, Any]) -> None: ...


def test_the_settings_form_offers_the_policy_only_where_there_is_order(
    ordered: Topic, topic: Topic, signed_in: Callable[..., Client], committed: Committed
) -> None:
    client = signed_in()
    for name in (ordered.name, topic.name):
        draft = SubscriptionDraft(name, "billing", "Reservations")
        committed(lambda draft=draft: subscriptions.create_subscription(SYSTEM, draft))  # type: ignore[misc]
        page = client.get(reverse("subscriptions:settings", args=[name, "billing"])).content.decode()
        assert ('name="on_failed_head"' in page) is (name == ordered.name)
