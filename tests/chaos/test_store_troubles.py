"""Consumers and a store in trouble: its disk is full, it answers slowly, the clock of the node steps."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
import redis

from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.config import BusConfig
from engine.bus.consumer import Consumer
from engine.bus.errors import PublishFailed
from engine.bus.policy import SubscriptionPolicy
from engine.bus.producer import Producer
from engine.bus.transports.redis_stream import open_transport
from engine.core.clock import SystemClock
from hbus_console.supervisor.standalone import StandaloneStore
from tests.engine.bus.kit import GROUP, TOPIC, WatchedFacts, until
from tests.full_disk import full_disk
from tests.slow_store import slow_store

pytestmark = pytest.mark.chaos

#: Added to each answer of the slow store.
SLOW_S = 0.5
HOUR_S = 3600


class Site:
    """A topic, a producer and consumers on a store at ``url``."""

    def __init__(self, url: str, prefix: str = "trouble", clock: SystemClock | None = None) -> None:
        self.transport = open_transport(BusConfig(url=url, prefix=prefix))
        self.transport.admin.create_topic(TOPIC)
        self.transport.admin.create_group(TOPIC, GROUP)
        self.facts = WatchedFacts()
        self.clock = clock
        catalog = StaticCatalog(TopicPolicy(TOPIC, "inventory"))
        self.producer = Producer(lambda _: self.transport, catalog, source="/t", facts=self.facts, clock=clock)
        self.handled: Counter[int] = Counter()
        self.work_s = 0.0
        self._consumers: list[Consumer] = []

    def consume(self, name: str, lease_s: float) -> Consumer:
        def handle(message: Any, context: Any) -> None:
            self.handled[message.json()["n"]] += 1
            time.sleep(self.work_s)

        policy = SubscriptionPolicy(TOPIC, GROUP, concurrency=2, lease_s=lease_s)
        made = Consumer(self.transport, policy, handle, name=name, facts=self.facts, clock=self.clock)
        self._consumers.append(made)
        made.start()
        return made

    def close(self) -> None:
        for consumer in self._consumers:
            consumer.stop(5.0)
        self.producer.close()
        self.transport.close()


def test_a_full_disk_refuses_publishes_clearly_and_consumers_wait(own_store: StandaloneStore) -> None:
    site = Site(own_store.url)
    client = redis.Redis.from_url(own_store.url)
    try:
        consumer = site.consume("c1", lease_s=5)
        site.producer.publish(TOPIC, {"n": 1})
        site.facts.wait_for("settled", 1)

        # When the store's disk is full
        with full_disk(client):
            # Then a publish failed for certain, and says what to do
            with pytest.raises(PublishFailed) as refused:
                site.producer.publish(TOPIC, {"n": 2})
            assert "cannot write to its disk" in str(refused.value)
            until(lambda: consumer.status().state == "store lost")
            assert "MISCONF" in consumer.status().last_error

        # And once there is room all goes on, without a restart, and the trouble counts as over
        site.producer.publish(TOPIC, {"n": 3})
        site.facts.wait_for("settled", 2)
        until(lambda: consumer.status().state == "running")
        assert consumer.status().recovered_ms >= consumer.status().last_error_ms > 0
        assert site.handled == {1: 1, 3: 1}
    finally:
        site.close()
        client.close()


def test_a_slow_store_delivers_nothing_twice(redis_url: str, prefix: str) -> None:
    with slow_store(redis_url, SLOW_S) as url:
        site = Site(url, prefix)
        try:
            assert site.transport.ping() >= SLOW_S
            site.work_s = 5.0
            for n in range(8):
                site.producer.publish(TOPIC, {"n": n})
            # Handlers outlive their lease: slow as it is, the heartbeat keeps it.
            for name in ("c1", "c2"):
                site.consume(name, lease_s=4.0)
            until(lambda: sum(site.handled.values()) >= 4)
            site.facts.wait_for("settled", 8)
            assert site.handled == dict.fromkeys(range(8), 1)
            assert not site.facts.of("lease_lost")
            assert not site.facts.of("store_lost")
        finally:
            site.close()


class SteppingClock(SystemClock):
    """A node whose wall clock somebody sets."""

    def __init__(self) -> None:
        self.off_s = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.off_s * 1000


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
def test_a_step_of_the_nodes_clock_loses_and_doubles_nothing(redis_url: str, prefix: str, step_s: int) -> None:
    clock = SteppingClock()
    site = Site(redis_url, prefix, clock)
    try:
        site.work_s = 0.3
        for name in ("c1", "c2"):
            site.consume(name, lease_s=1.0)
        for n in range(12):
            site.producer.publish(TOPIC, {"n": n})
        until(lambda: len(site.handled) >= 2)
        # Leases are counted by the store's clock there and by the monotonic clock here.
        clock.off_s = step_s
        for n in range(12, 24):
            site.producer.publish(TOPIC, {"n": n})
        site.facts.wait_for("settled", 24)
        assert site.handled == dict.fromkeys(range(24), 1)
        assert not site.facts.of("lease_lost")
        assert not site.facts.of("expired")
        assert site.transport.admin.lag(TOPIC, GROUP).unsettled == 0
    finally:
        site.close()
