"""A busy topic has a store of its own: `redis_stream@busy`, as HBUS_STORES names it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import redis
from pytest_django import Settings

from engine.bus.errors import PublishUnknown
from engine.bus.transport import Settlement
from engine.core import scripts
from engine.core.errors import BadInput, ConfigurationError
from hbus_console.access.permissions import SYSTEM
from hbus_console.operations import services as operations
from hbus_console.operations.runner import OperationRunner
from hbus_console.publishing.producer import shared_producer
from hbus_console.supervisor.standalone import StandaloneStore
from hbus_console.topics import move
from hbus_console.topics import services as topics
from hbus_console.topics.models import Topic
from hbus_console.topics.services import TopicDraft
from hbus_console.wiring import bus, store

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
    return list(client.scan_iter(f"{store.settings.HBUS_PREFIX}:{{{TOPIC}}}:*"))


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


def test_a_topic_moves_to_a_store_of_its_own_while_it_is_in_use(
    busy: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a topic in the installation's store, with a message that nobody has read
    monkeypatch.setattr(move, "QUIET_MS", 200)
    topics.create_topic(SYSTEM, TopicDraft(TOPIC, "Reservations"))
    bus.admin().create_group(TOPIC, "billing")
    shared_producer().publish(TOPIC, {"n": 1})

    operation = operations.start(SYSTEM, "move", {"topic": TOPIC, "to": BUSY}, reason="more room").operation
    OperationRunner().tick()
    shared_producer().publish(TOPIC, {"n": 2})
    receiver = bus.transport("redis_stream").receiver(TOPIC, "billing", consumer="c", lease_ms=30_000)
    receiver.settle([Settlement(each.receipt) for each in receiver.receive(10, 1)])
    receiver.close()
    deadline = time.monotonic() + 10
    while operation.state != "done" and time.monotonic() < deadline:
        OperationRunner().tick()
        operation.refresh_from_db()
        time.sleep(0.02)

    row = Topic.objects.get(name=TOPIC)
    assert (operation.state, row.transport, row.leaving) == ("done", BUSY, "")
    assert bus.admin(BUSY).depth(TOPIC).messages == 1
