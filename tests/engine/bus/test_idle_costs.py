"""What a subscription asks of its process and its store while nothing comes: as little as its promises allow."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest

from engine.bus.config import BusConfig
from engine.bus.consumer import Consumer
from engine.bus.partitions import Partitioned
from engine.bus.policy import SubscriptionPolicy
from engine.bus.registry import open_transport
from engine.bus.transport import Transport
from engine.core.clock import ManualClock
from engine.core.facts import NullFacts
from hbus_console.supervisor.standalone import StandaloneStore
from tests.engine.bus.kit import GROUP, TOPIC, Bus, Recorder, running, until
from tests.store_work import store_reads


@pytest.fixture
def transport(own_store: StandaloneStore) -> Iterator[Transport]:
    made = open_transport(BusConfig(url=own_store.url, prefix="idle"))
    made.admin.create_topic(TOPIC)
    made.admin.create_group(TOPIC, GROUP)
    yield made
    made.close()


def test_a_read_that_waits_in_vain_asks_once_and_waits_once(transport: Transport, own_store: StandaloneStore) -> None:
    receiver = transport.receiver(TOPIC, GROUP, consumer="c", lease_ms=30_000)
    receiver.receive(1, 0.0)
    with store_reads(own_store.url) as cost:
        assert receiver.receive(1, 0.05) == []
    receiver.close()
    assert cost.units == 2


def test_so_does_one_of_an_ordered_subscription(transport: Transport, own_store: StandaloneStore) -> None:
    assert isinstance(transport, Partitioned)
    receiver = transport.partitioned_receiver(TOPIC, GROUP, consumer="c", lease_ms=30_000, partitions=1, seat_ms=30_000)
    receiver.turn(sit=True)
    receiver.receive(1, 0.0)
    with store_reads(own_store.url) as cost:
        assert receiver.receive(1, 0.05) == []
    receiver.close()
    assert cost.units == 2


def test_the_settler_sleeps_until_it_is_told(bus: Bus) -> None:
    patience: list[float | None] = []

    class Noting(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            patience.append(timeout)
            return super().wait(timeout)

    consumer = bus.consumer(Recorder())
    consumer._settler._wake = Noting()
    with running(consumer):
        until(lambda: bool(patience))
        assert patience == [None]
        bus.publish({"n": 1})
        until(lambda: consumer.status().handled == 1)


def test_those_that_start_together_do_not_beat_together(bus: Bus) -> None:
    clock = bus.clock
    assert isinstance(clock, ManualClock)
    due: list[float] = []

    class Noting(ManualClock):
        def wait(self, event: threading.Event, seconds: float) -> bool:
            if threading.current_thread().name.endswith("-heartbeat"):
                due.append(seconds)
                return event.wait()
            return super().wait(event, seconds)

    policy = SubscriptionPolicy(TOPIC, GROUP, lease_s=30.0)
    for seed in range(3):
        consumer = Consumer(
            bus.transport,
            policy,
            Recorder(),
            name=f"c{seed}",
            facts=NullFacts(),
            clock=Noting(),
            rng=random.Random(seed),
        )
        with running(consumer):
            until(lambda: len(due) > seed)  # noqa: B023 - called here
    assert len(set(due)) == 3
    assert all(5.0 <= each <= 10.0 for each in due)
