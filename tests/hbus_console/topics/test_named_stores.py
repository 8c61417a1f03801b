"""A busy topic has a store of its own: `redis_stream@busy`, as HBUS_STORES names it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import redis
from django.utils import timezone
from pytest_django import Settings

from engine.bus.errors import PublishUnknown
from engine.bus.options import PublishOptions
from engine.bus.transport import Settlement
from engine.core import scripts
from engine.core.clock import ManualClock, SystemClock
from engine.core.errors import BadInput, ConfigurationError, Conflict
from hbus_console.access.permissions import SYSTEM
from hbus_console.operations import services as operations
from hbus_console.operations.runner import OperationRunner
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions import services as subscriptions
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.reconcile import ensure_transport_objects
from hbus_console.supervisor.standalone import StandaloneStore
from hbus_console.topics import move
from hbus_console.topics import services as topics
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.topics.services import TopicDraft
from hbus_console.topics.services import topics as topics_module
from hbus_console.wiring import bus, store
from tests.unhurried import UnhurriedClock

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)

BUSY = "redis_stream@busy"
TOPIC = "booking.created"


@pytest.fixture
def busy(own_keys: None, team: object, own_store: StandaloneStore, settings: Settings) -> Iterator[redis.Redis]:
    """The store called busy, from within."""
    settings.HBUS_STORES = {"busy": own_store.url}
    store.close()
    client = redis.Redis.from_url(own_store.url)
    yield client
    client.close()
    store.close()


def topic_keys(client: redis.Redis) -> list[bytes]:
    """But for the mark that it takes nothing more there."""
    keys = client.scan_iter(f"{store.settings.HBUS_PREFIX}:{{{TOPIC}}}:*")
    return [key for key in keys if client.type(key) != b"hash" or set(client.hkeys(key)) != {b"closed"}]


def test_a_topic_lies_in_the_store_that_it_names(busy: redis.Redis) -> None:
    assert BUSY in bus.carriers()
    topics.create_topic(SYSTEM, TopicDraft(TOPIC, "Reservations", transport=BUSY))

    shared_producer().publish(TOPIC, {"n": 1})

    assert bus.admin(BUSY).depth(TOPIC).messages == 1
    assert topic_keys(busy)
    assert not topic_keys(store.client())


def test_a_store_that_nobody_named_is_refused_by_field(busy: redis.Redis) -> None:
    with pytest.raises(BadInput, match=BUSY) as refused:
        topics.create_topic(SYSTEM, TopicDraft(TOPIC, "Reservations", transport="redis_stream@other"))
    assert refused.value.field == "transport"
    with pytest.raises(ConfigurationError, match="no store called 'other'") as unknown:
        bus.transport("redis_stream@other")
    assert unknown.value.field == "HBUS_STORES"


def test_its_address_says_how_many_replicas_confirm(
    busy: redis.Redis, settings: Settings, own_store: StandaloneStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "REPLICAS_WAIT_MS", 50)
    settings.HBUS_STORES = {"busy": f"{own_store.url}?replicas=1"}
    store.close()
    topics.create_topic(SYSTEM, TopicDraft(TOPIC, "Reservations", transport=BUSY))
    topics.create_topic(SYSTEM, TopicDraft("booking.changed", "Reservations"))

    with pytest.raises(PublishUnknown, match="0 of 1 replicas"):
        shared_producer().publish(TOPIC, {"n": 1})

    assert shared_producer().publish("booking.changed", {"n": 1}).position


def test_without_order_a_change_of_store_is_a_move(busy: redis.Redis) -> None:
    topics.create_topic(SYSTEM, TopicDraft(TOPIC, "Reservations"))
    with pytest.raises(Conflict, match="left behind there") as refused:
        topics.change_topic(SYSTEM, TOPIC, {"transport": BUSY}, "more room")
    assert (refused.value.field, f"move_topic {TOPIC} --to {BUSY}" in refused.value.remedy) == ("transport", True)


def test_an_ordered_topic_stands_still_and_leaves_nothing_behind(
    busy: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create_topic(SYSTEM, TopicDraft(TOPIC, "Reservations", ordering="key"))
    position = shared_producer().publish(TOPIC, {"n": 1}, PublishOptions(key="stay-1")).position
    billing = Subscription.objects.create(
        topic=Topic.objects.get(), group="billing", checkpoint=position, checkpoint_at=timezone.now()
    )
    # Given everything settled, but only just published
    bus.admin().create_group(TOPIC, "billing", position)
    with pytest.raises(Conflict, match="last 65 seconds"):
        topics.change_topic(SYSTEM, TOPIC, {"transport": BUSY}, "more room")

    monkeypatch.setattr(topics_module, "_clock", ManualClock(SystemClock().now_ms() + 90_000))
    moved = topics.change_topic(SYSTEM, TOPIC, {"transport": BUSY}, "more room")
    assert moved.moved_at is not None
    # Then a position of the old store means nothing on the new one
    billing.refresh_from_db()
    assert (billing.checkpoint, billing.checkpoint_at) == ("", None)
    assert StoreRemoval.objects.get().transport == "redis_stream"
    with pytest.raises(Conflict, match="still being removed"):
        topics.change_topic(SYSTEM, TOPIC, {"transport": "redis_stream"}, "back again")
    ensure_transport_objects()
    assert not topic_keys(store.client())
    assert topic_keys(busy)


def test_a_topic_that_is_deleted_while_it_moves_is_removed_from_both(busy: redis.Redis) -> None:
    topics.create_topic(SYSTEM, TopicDraft(TOPIC, "Reservations"))
    Subscription.objects.create(topic=Topic.objects.get(), group="billing")
    operation = operations.start(SYSTEM, "move", {"topic": TOPIC, "to": BUSY}, reason="more room").operation
    shared_producer().publish(TOPIC, {"n": 1})
    OperationRunner(UnhurriedClock()).tick()
    assert Topic.objects.get().leaving == "redis_stream"
    shared_producer().publish(TOPIC, {"n": 2})
    with pytest.raises(Conflict, match="on its way"):
        topics.change_topic(SYSTEM, TOPIC, {"transport": "redis_stream"}, "back again")

    subscriptions.delete_subscription(SYSTEM, TOPIC, "billing", "billing", "gone")
    assert (bus.admin("redis_stream").groups(TOPIC), bus.admin(BUSY).groups(TOPIC)) == ([], [])
    topics.delete_topic(SYSTEM, TOPIC, TOPIC, "not needed")

    assert not StoreRemoval.objects.exists()
    assert (topic_keys(store.client()), topic_keys(busy)) == ([], [])
    OperationRunner(UnhurriedClock()).tick()
    operation.refresh_from_db()
    assert (operation.state, operation.last_error) == ("failed", f"There is no topic '{TOPIC}' any more.")


def test_a_topic_moves_to_a_store_of_its_own_while_it_is_in_use(
    busy: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a topic in the installation's store, with a message that nobody has read
    monkeypatch.setattr(move, "QUIET_MS", 200)
    monkeypatch.setattr(move, "OLD_RULES_MS", 0)
    topics.create_topic(SYSTEM, TopicDraft(TOPIC, "Reservations"))
    bus.admin().create_group(TOPIC, "billing")
    shared_producer().publish(TOPIC, {"n": 1})

    operation = operations.start(SYSTEM, "move", {"topic": TOPIC, "to": BUSY}, reason="more room").operation
    OperationRunner(UnhurriedClock()).tick()
    shared_producer().publish(TOPIC, {"n": 2})
    receiver = bus.transport("redis_stream").receiver(TOPIC, "billing", consumer="c", lease_ms=30_000)
    receiver.settle([Settlement(each.receipt) for each in receiver.receive(10, 1)])
    receiver.close()
    deadline = time.monotonic() + 60
    while operation.state != "done" and time.monotonic() < deadline:
        OperationRunner(UnhurriedClock()).tick()
        operation.refresh_from_db()
        time.sleep(0.02)

    row = Topic.objects.get(name=TOPIC)
    assert (operation.state, row.transport, row.leaving) == ("done", BUSY, "")
    assert bus.admin(BUSY).depth(TOPIC).messages == 1
