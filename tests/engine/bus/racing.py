"""A publisher in a process of its own: it publishes the same keys as its rivals, at once or for later."""

from __future__ import annotations

import random
import sys

import msgspec
import redis

from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.config import BusConfig
from engine.bus.delays import RedisDelays
from engine.bus.options import PublishOptions
from engine.bus.producer import Producer, Receipt
from engine.bus.registry import open_transport
from engine.core.facts import NullFacts

TOPIC = "booking.created"


def main(url: str, prefix: str, way: str, rivals: int, keys: int) -> None:
    """Print ``[key, status, id]`` a line. ``way``: ``now``, ``later``, or ``either`` by the toss of a coin."""
    store = redis.Redis.from_url(url)
    transport = open_transport(BusConfig(url=url, prefix=prefix))
    producer = Producer(
        lambda _: transport,
        StaticCatalog(TopicPolicy(TOPIC, owner="inventory")),
        source=f"/rival/{way}",
        facts=NullFacts(),
        delays=RedisDelays(store, prefix),
    )
    store.rpush(f"{prefix}:ready", way)
    store.blpop([f"{prefix}:go"], 30)
    for number in range(keys):
        # All are let go at the same key, again and again: else the first to start would be ahead for good.
        store.incr(f"{prefix}:at:{number}")
        while int(store.get(f"{prefix}:at:{number}") or 0) < rivals:
            pass
        later = way == "later" or (way == "either" and random.random() < 0.5)
        options = PublishOptions(idempotency_key=f"k{number}", delay_s=0.2 if later else 0.0)
        answer = producer.publish(TOPIC, {"n": number}, options)
        assert isinstance(answer, Receipt)
        print(msgspec.json.encode((number, answer.status, answer.message_id)).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
