"""What is no message on the keys of Celery's broker ends no worker, and keeps nothing that is one from it."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import kombu
import pytest
import redis
from kombu.transport.redis import SentinelChannel
from kombu.utils.imports import symbol_by_name

from hbus_console.broker_transport import CheckedChannel, CheckedMessage
from hbus_console.consumers.celery_app import app as consumers
from hbus_console.jobs.queue import app as jobs
from hbus_console.stores import broker_of

QUEUE, FANOUT = "work", "news"


def _envelope(**other: Any) -> dict[str, Any]:
    route = {"exchange": "", "routing_key": QUEUE}
    properties = {"delivery_tag": "1", "delivery_info": route, "body_encoding": "base64"}
    return {"body": "e30=", "properties": properties, "headers": {}, "content-type": "application/json"} | other


def _with(**properties: Any) -> dict[str, Any]:
    return _envelope(properties=_envelope()["properties"] | properties)


JUNK = [
    b"junk",
    b"\xff\xfe",
    b"[]",
    b"7",
    b"null",
    b'"text"',
    b"{}",
    b"[" * 20_000,
    b'{"a":' * 20_000,
    b'{"__type__": "datetime", "__value__": "junk"}',
    json.dumps(_envelope(properties=None)).encode(),
    json.dumps(_envelope(body=7)).encode(),
    json.dumps(_envelope(body="e")).encode(),
    json.dumps(_envelope(headers=[])).encode(),
    json.dumps(_envelope() | {"content-type": 7}).encode(),
    json.dumps(_with(delivery_tag=None)).encode(),
    json.dumps(_with(delivery_tag=[1])).encode(),
    json.dumps(_with(delivery_info=[])).encode(),
    json.dumps(_with(body_encoding="rot13")).encode(),
]


@pytest.fixture
def broker(redis_url: str, prefix: str) -> Iterator[kombu.Connection]:
    found = broker_of(redis_url)
    options = {"global_keyprefix": f"{prefix}:", **found.options}
    with kombu.Connection(found.url, transport=found.reading, transport_options=options) as connection:
        yield connection


def _taken(connection: kombu.Connection, queue: kombu.Queue, spoil: Callable[[], None]) -> list[Any]:
    """What a consumer takes that is there before, until what is sent after the junk has come."""
    found: list[Any] = []

    def take(body: Any, message: kombu.Message) -> None:
        message.ack()
        found.append(body)

    with connection.Consumer(queue, callbacks=[take], accept=["json"]), connection.Producer() as producer:
        # The answers to its own subscribing come first
        with contextlib.suppress(TimeoutError):
            while True:
                connection.drain_events(timeout=0.2)
        spoil()
        to = {"exchange": queue.exchange} if queue.exchange.name else {"routing_key": queue.name}
        producer.publish({"good": 1}, **to)
        while not found:
            connection.drain_events(timeout=10)
    return found


@pytest.mark.parametrize("junk", JUNK, ids=lambda raw: repr(raw[:40]))
def test_junk_in_a_queue_is_told_and_dropped(
    broker: kombu.Connection, redis_url: str, prefix: str, junk: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store = redis.Redis.from_url(redis_url)
    caplog.set_level(logging.WARNING)
    assert _taken(broker, kombu.Queue(QUEUE), lambda: store.lpush(f"{prefix}:{QUEUE}", junk) and None) == [{"good": 1}]
    assert "dropped an item of the broker" in caplog.text
    # It stands nowhere as something that was taken and not settled
    assert not store.exists(f"{prefix}:unacked")


@pytest.mark.parametrize("junk", JUNK, ids=lambda raw: repr(raw[:40]))
def test_junk_on_a_channel_is_told_and_dropped(
    broker: kombu.Connection, redis_url: str, prefix: str, junk: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store = redis.Redis.from_url(redis_url)
    caplog.set_level(logging.WARNING)
    queue = kombu.Queue("mine", kombu.Exchange(FANOUT, type="fanout"), auto_delete=True)
    database = store.connection_pool.connection_kwargs.get("db", 0)

    def spoil() -> None:
        assert store.publish(f"{prefix}:/{database}.{FANOUT}", junk) == 1

    assert _taken(broker, queue, spoil) == [{"good": 1}]
    assert caplog.text


def test_what_a_worker_breaks_on_is_told_and_dropped(
    broker: kombu.Connection, redis_url: str, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(body: Any, message: kombu.Message) -> None:
        raise ValueError(f"nothing to do with {body}")

    with broker.Consumer(kombu.Queue(QUEUE), callbacks=[breaks]), broker.Producer() as producer:
        producer.publish("mine", routing_key=QUEUE)
        broker.drain_events(timeout=10)
    assert "nothing to do with mine" in caplog.text
    assert not redis.Redis.from_url(redis_url).exists(f"{prefix}:unacked")


def test_a_worker_that_can_do_nothing_now_keeps_what_it_took(
    broker: kombu.Connection, redis_url: str, prefix: str
) -> None:
    def breaks(body: Any, message: kombu.Message) -> None:
        raise OSError("no disk")

    with broker.Consumer(kombu.Queue(QUEUE), callbacks=[breaks]), broker.Producer() as producer:
        producer.publish("mine", routing_key=QUEUE)
        with pytest.raises(OSError, match="disk"):
            broker.drain_events(timeout=10)
        assert redis.Redis.from_url(redis_url).hlen(f"{prefix}:unacked") == 1


@pytest.mark.parametrize("junk", [b"junk", b"[]", b"[7,8,9]", b"[" * 20_000])
def test_junk_among_the_messages_in_hand_is_told_and_dropped(
    broker: kombu.Connection, redis_url: str, prefix: str, junk: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store = redis.Redis.from_url(redis_url)
    store.zadd(f"{prefix}:unacked_index", {"tag": 0})
    store.hset(f"{prefix}:unacked", "tag", junk)
    broker.default_channel.qos.restore_visible()
    assert caplog.records[0].levelno >= logging.WARNING
    assert not store.exists(f"{prefix}:unacked", f"{prefix}:unacked_index")


def closed(broker: kombu.Connection) -> Any:
    """A channel whose connection was closed under it, as when the broker was killed, with a message in hand."""
    channel = broker.channel()
    queue = kombu.Queue(QUEUE)(channel)
    queue.declare()
    kombu.Producer(channel).publish("mine", routing_key=QUEUE)
    assert queue.get() is not None
    channel._disconnect_pools()
    broker.transport.client = None
    return channel


def test_a_connection_that_was_closed_ends_no_worker_and_takes_nothing_from_it(
    broker: kombu.Connection, redis_url: str, prefix: str
) -> None:
    channel = closed(broker)
    channel.qos.restore_unacked_once()
    assert redis.Redis.from_url(redis_url).hlen(f"{prefix}:unacked") == 1
    assert channel.qos._delivered.restored


def test_what_cannot_be_given_back_by_a_closed_connection_is_no_junk(
    broker: kombu.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    channel = closed(broker)
    with pytest.raises(broker.connection_errors):
        channel.qos.restore_by_tag(next(iter(channel.qos._delivered)))
    assert caplog.records == []


@pytest.mark.parametrize(
    ("settle", "how"),
    [
        ("ack_log_error", {"multiple": False}),
        *(("reject_log_error", {"requeue": requeue}) for requeue in (False, True)),
    ],
)
def test_a_run_that_ends_after_its_connection_was_closed_ends_no_worker(
    broker: kombu.Connection, prefix: str, settle: str, how: dict[str, bool], caplog: pytest.LogCaptureFixture
) -> None:
    channel = closed(broker)
    ((_, message),) = channel.qos._delivered.items()
    # As Celery does with what it has done: told, whatever it is that a connection breaks with.
    getattr(message, settle)(logging.getLogger("celery"), broker.connection_errors, **how)
    assert "closed" in caplog.text


@pytest.mark.parametrize("app", [consumers, jobs], ids=["consumers", "jobs"])
def test_the_workers_read_by_it(app: Any) -> None:
    with app.connection() as connection:
        assert connection.transport.Channel is CheckedChannel


def test_a_broker_behind_sentinels_is_read_by_the_same_rules() -> None:
    channel = symbol_by_name(broker_of("sentinel://a,b/main").reading).Channel
    assert issubclass(channel, SentinelChannel)
    assert channel._brpop_read is CheckedChannel._brpop_read
    assert channel.Message is CheckedMessage
