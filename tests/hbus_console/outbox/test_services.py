from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from django.db import transaction
from pytest_django import Settings

from engine.bus.errors import OwnerlessTopic, PublishRefused, UnknownTopic
from engine.bus.message import Message
from engine.bus.options import PublishOptions
from engine.core.errors import BadInput
from hbus_console.access.permissions import ANONYMOUS, SYSTEM, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.outbox.models import OutboxMessage
from hbus_console.outbox.services import publish_on_commit, retry_refused, send_on_commit, wake_key
from hbus_console.teams.models import Team
from hbus_console.topics import catalog
from hbus_console.topics.models import Topic
from hbus_console.wiring import store


def test_the_message_waits_in_the_outbox_once_the_transaction_commits_and_the_relay_is_woken(topic: Topic) -> None:
    with transaction.atomic():
        message_id = publish_on_commit(topic.name, {"amount": 1}, PublishOptions(key="b1"))
        assert store.client().llen(wake_key()) == 0
    row = OutboxMessage.objects.get()
    assert (row.message_id, row.topic, row.key) == (message_id, topic.name, "b1")
    assert store.client().llen(wake_key()) == 1


def test_one_event_may_leave_for_two_topics_under_its_id(topic: Topic) -> None:
    other = Topic.objects.create(name="outbox.other", team=topic.team)
    catalog.changed()
    with transaction.atomic():
        for name in (topic.name, other.name):
            publish_on_commit(name, {"amount": 1}, PublishOptions(message_id="order-1"))
    assert set(OutboxMessage.objects.values_list("topic", "message_id")) == {
        (topic.name, "order-1"),
        (other.name, "order-1"),
    }


def test_the_wake_list_does_not_grow(topic: Topic) -> None:
    for _ in range(3):
        with transaction.atomic():
            publish_on_commit(topic.name, {})
    assert store.client().llen(wake_key()) == 1


def test_a_rolled_back_transaction_leaves_nothing(topic: Topic) -> None:
    def fail() -> None:
        with transaction.atomic():
            publish_on_commit(topic.name, {"amount": 1})
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert not OutboxMessage.objects.exists()
    assert store.client().llen(wake_key()) == 0


def test_outside_a_transaction_it_refuses(topic: Topic) -> None:
    with pytest.raises(RuntimeError, match="atomic"):
        publish_on_commit(topic.name, {})


def test_what_the_bus_would_refuse_is_refused_before_the_commit(topic: Topic) -> None:
    def change_and_publish() -> None:
        with transaction.atomic():
            Team.objects.create(name="Rolled back", contact="x")
            publish_on_commit("no.such.topic", {})

    with pytest.raises(UnknownTopic):
        change_and_publish()
    assert not Team.objects.filter(name="Rolled back").exists()
    Topic.objects.update(team=None)
    catalog.changed()
    with pytest.raises(OwnerlessTopic), transaction.atomic():
        publish_on_commit(topic.name, {})


def test_a_due_time_is_kept(topic: Topic) -> None:
    due = datetime(2026, 12, 1, tzinfo=UTC)
    with transaction.atomic():
        publish_on_commit(topic.name, {}, PublishOptions(due=due))
    assert OutboxMessage.objects.get().due_ms == due.timestamp() * 1000


def test_an_absent_store_does_not_fail_the_commit(topic: Topic, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    store.close()
    with transaction.atomic():
        publish_on_commit(topic.name, {})
    assert OutboxMessage.objects.count() == 1


def refused(**changes: Any) -> OutboxMessage:
    values = {"topic": "invoice.drafted", "message_id": "m1", "body": b"{}", "refused_at": datetime.now(UTC)}
    return OutboxMessage.objects.create(**(values | changes))


def test_refused_messages_are_offered_again_with_a_reason_and_audited(topic: Topic) -> None:
    refused()
    refused(message_id="m2", topic="another.topic")
    assert retry_refused(SYSTEM, topic.name, "the owner is back") == 1
    assert list(OutboxMessage.objects.filter(refused_at=None).values_list("message_id", flat=True)) == ["m1"]
    entry = AuditEntry.objects.get(action="outbox.retry")
    assert (entry.target, entry.reason, entry.after) == (topic.name, "the owner is back", {"messages": 1})


def test_offering_again_needs_permission_and_a_reason(topic: Topic) -> None:
    refused()
    with pytest.raises(Forbidden):
        retry_refused(ANONYMOUS, topic.name, "because")
    with pytest.raises(BadInput):
        retry_refused(SYSTEM, topic.name, "  ")
    assert OutboxMessage.objects.filter(refused_at=None).count() == 0


def test_what_the_relay_would_be_refused_for_good_is_refused_at_the_door(topic: Topic) -> None:
    message = Message(id="m1", source="/t", type="t", data=msgspec.Raw(b'"' + b"x" * 1_100_000 + b'"'))
    with pytest.raises(PublishRefused, match="takes"), transaction.atomic():
        send_on_commit(topic.name, message)
    assert not OutboxMessage.objects.exists()


@pytest.mark.parametrize("key", ["k" * 5_000, "a\0b", "plain"])
def test_what_a_stranger_wrote_into_a_store_fits_its_row(topic: Topic, key: str) -> None:
    """PostgreSQL refuses it; whoever copies it would be held up for ever."""
    odd = Message(id="m1", source="/s", type="t", partitionkey=key, hbuspriority="", data=msgspec.Raw(b"{}"))
    with transaction.atomic():
        send_on_commit(topic.name, odd)
        send_on_commit(topic.name, msgspec.structs.replace(odd, id="m2"))
    first, second = OutboxMessage.objects.all()
    assert first.key == second.key
    assert (first.key == key) == (key == "plain")
    assert len(first.key) <= 40
    assert "\0" not in first.key
