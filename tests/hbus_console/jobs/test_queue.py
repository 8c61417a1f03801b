"""What is offered to the workers, as they find it in their queue."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest
import redis
from celery import Celery

from engine.core.errors import Unavailable
from engine.cron.slots.steps import Offer, Queued
from hbus_console.jobs import queue
from hbus_console.supervisor.standalone import StandaloneStore

#: What differs from one task to the next, and what names the process that sent it, which nobody asks for.
_OWN = {"id", "root_id", "correlation_id", "delivery_tag"}
_SENDER = {"origin", "reply_to"}


@pytest.fixture
def waiting(redis_url: str) -> redis.Redis:
    """The store, with the workers' queue empty."""
    client = redis.Redis.from_url(redis_url)
    client.delete(_key())
    return client


def test_runs_are_offered_as_celery_itself_would_offer_them(waiting: redis.Redis) -> None:
    queue.app.send_task(queue.RUN_TASK, args=(4711,), queue=queue.QUEUE, retry=False, ignore_result=True)
    queue.offer(Offer((4711, 4712)))
    celerys, first, second = (_told(raw) for raw in waiting.lrange(_key(), 0, -1)[::-1])
    assert first == celerys
    assert (second["body"][0], second["headers"]["argsrepr"]) == ([4712], "(4712,)")


def test_what_is_for_one_node_lies_in_the_queue_of_its_workers(waiting: redis.Redis) -> None:
    there = _key().replace(queue.QUEUE, queue.queue_of("web-1"))
    waiting.delete(there)
    queue.offer(Offer((1, 2, 3), {2: "web-1"}))
    assert [_told(raw)["body"][0] for raw in waiting.lrange(_key(), 0, -1)[::-1]] == [[1], [3]]
    (raw,) = waiting.lrange(there, 0, -1)
    assert (_told(raw)["body"][0], waiting.delete(there)) == ([2], 1)
    # Where Celery puts back what a killed worker had in hand.
    assert json.loads(raw)["properties"]["delivery_info"]["routing_key"] == queue.queue_of("web-1")


def test_how_much_waits_is_told_of_each_queue(waiting: redis.Redis) -> None:
    there = _key().replace(queue.QUEUE, queue.queue_of("web-1"))
    waiting.delete(there)
    queue.offer(Offer((1, 2, 3), {2: "web-1"}))
    assert queue.queued(Queued(("web-1", "web-2"))) == {"": 2, "web-1": 1, "web-2": 0}
    waiting.delete(there)


def test_each_offer_is_a_task_of_its_own(waiting: redis.Redis) -> None:
    queue.offer(Offer((1, 1)))
    queue.offer(Offer((1,)))
    tags = {json.loads(raw)["properties"]["delivery_tag"] for raw in waiting.lrange(_key(), 0, -1)}
    assert len(tags) == 3


def test_a_broker_that_goes_away_is_told_as_that_and_found_again(
    own_store: StandaloneStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "app", Celery("own", broker=own_store.url))
    queue.offer(Offer((1,)))
    own_store.kill()
    with pytest.raises(Unavailable):
        queue.offer(Offer((2,)))
    with pytest.raises(Unavailable):
        queue.queued(Queued(()))
    own_store.start()
    queue.offer(Offer((3,)))
    with redis.Redis.from_url(own_store.url) as client:
        assert _told(client.lindex(queue.QUEUE, 0))["body"][0] == [3]


def test_a_broker_that_is_full_is_told_as_that(own_store: StandaloneStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "app", Celery("own", broker=own_store.url))
    with redis.Redis.from_url(own_store.url) as client:
        client.config_set("maxmemory", 1)
        with pytest.raises(Unavailable, match="OOM"):
            queue.offer(Offer((1,)))
        client.config_set("maxmemory", 0)
    queue.offer(Offer((2,)))


def _key() -> str:
    prefix = queue.app.conf.broker_transport_options["global_keyprefix"]
    return f"{prefix}{queue.QUEUE}"


def _told(raw: bytes) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(raw)
    body = json.loads(b64decode(message["body"]))
    parts = {name: _alike(message[name]) for name in ("headers", "properties")}
    return {**message, "body": body, **parts}


def _alike(part: dict[str, Any]) -> dict[str, Any]:
    return {name: "its own" if name in _OWN else value for name, value in part.items() if name not in _SENDER}
