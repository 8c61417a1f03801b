"""What the bus's tests share: facts one can wait for, a transport that fails on demand, consumers that end."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.config import BusConfig
from engine.bus.conformance.base import PATIENCE_S
from engine.bus.conformance.running import Recorder, SetInbox, WatchedFacts, running, until
from engine.bus.consumer import Consumer, Handler
from engine.bus.options import NO_OPTIONS, PublishOptions
from engine.bus.partitions import Owned, Parked, Partitioned, PartitionedReceiver, Turn, Unparked
from engine.bus.policy import BreakerPolicy, RetryPolicy, SubscriptionPolicy
from engine.bus.producer import Producer, Receipt
from engine.bus.registry import open_transport
from engine.bus.transport import (
    Admin,
    Capabilities,
    Delivery,
    Outcome,
    Outgoing,
    Receiver,
    Settlement,
    Stored,
    Transport,
)
from engine.core.clock import Clock, ManualClock
from engine.core.errors import Unavailable

TOPIC = "booking.created"
GROUP = "availability"


class FaultyTransport:
    """A real transport, whose verbs can be made to fail, and whose calls are counted."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.failing: set[str] = set()
        #: Raised once, by the next call of a verb.
        self.once: dict[str, BaseException] = {}
        self._calls: dict[str, int] = {}
        self._changed = threading.Condition()

    name = "faulty"

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    @property
    def admin(self) -> Admin:
        return self.inner.admin

    def publish(self, topic: str, batch: Sequence[Outgoing]) -> list[Outcome]:
        self.called("publish")
        return self.inner.publish(topic, batch)

    def receiver(self, topic: str, group: str, *, consumer: str, lease_ms: int, partition: int = 0) -> Receiver:
        made = self.inner.receiver(topic, group, consumer=consumer, lease_ms=lease_ms, partition=partition)
        return _FaultyReceiver(self, made)

    def partitioned_receiver(self, topic: str, group: str, **more: Any) -> PartitionedReceiver:
        return _FaultyPartitionedReceiver(self, self.ordered.partitioned_receiver(topic, group, **more))

    @property
    def ordered(self) -> Partitioned:
        assert isinstance(self.inner, Partitioned)
        return self.inner

    def set_partitions(self, topic: str, partitions: int) -> None:
        self.ordered.set_partitions(topic, partitions)

    def partitions(self, topic: str) -> int:
        return self.ordered.partitions(topic)

    def owners(self, topic: str, group: str) -> list[Owned]:
        return self.ordered.owners(topic, group)

    def parked(
        self, topic: str, group: str, limit: int = 100, key: str | None = None, head: str | None = None
    ) -> list[Parked]:
        return self.ordered.parked(topic, group, limit, key, head)

    def set_aside(self, topic: str, group: str, key: str, limit: int = 100) -> list[Stored]:
        return self.ordered.set_aside(topic, group, key, limit)

    def unpark(
        self,
        topic: str,
        group: str,
        key: str,
        head: str,
        partition: int | None = None,
        *,
        seen: Parked | None = None,
    ) -> Unparked | None:
        return self.ordered.unpark(topic, group, key, head, partition, seen=seen)

    def ping(self) -> float:
        return self.inner.ping()

    def close(self) -> None:
        self.inner.close()

    def called(self, verb: str) -> None:
        with self._changed:
            self._calls[verb] = self._calls.get(verb, 0) + 1
            self._changed.notify_all()
        if error := self.once.pop(verb, None):
            raise error
        if verb in self.failing:
            raise Unavailable(f"{verb} fails on demand")

    def calls(self, verb: str) -> int:
        with self._changed:
            return self._calls.get(verb, 0)

    def wait_for(self, verb: str, count: int) -> None:
        """Return once ``verb`` was called ``count`` times in all."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._calls.get(verb, 0) >= count, PATIENCE_S), self._calls


class _FaultyReceiver:
    def __init__(self, owner: FaultyTransport, inner: Receiver) -> None:
        self._owner = owner
        self._inner = inner

    def receive(self, limit: int, wait_s: float) -> list[Delivery]:
        self._owner.called("receive")
        return self._inner.receive(limit, wait_s)

    def settle(self, batch: Sequence[Settlement]) -> list[bool]:
        self._owner.called("settle")
        return self._inner.settle(batch)

    def extend(self, receipts: Sequence[str]) -> list[bool]:
        self._owner.called("extend")
        return self._inner.extend(receipts)

    def close(self) -> None:
        self._inner.close()


class _FaultyPartitionedReceiver(_FaultyReceiver):
    def __init__(self, owner: FaultyTransport, inner: PartitionedReceiver) -> None:
        super().__init__(owner, inner)
        self._seats = inner

    def turn(self, *, sit: bool) -> Turn:
        self._owner.called("turn")
        return self._seats.turn(sit=sit)

    def keep_off(self, partition: int) -> None:
        self._seats.keep_off(partition)

    def give_up(self, partitions: Sequence[int]) -> None:
        self._seats.give_up(partitions)

    def rest(self, partitions: frozenset[int]) -> None:
        self._seats.rest(partitions)

    def is_parked(self, partition: int, key: str) -> bool:
        return self._seats.is_parked(partition, key)


@dataclass
class Bus:
    """A topic with one group on a transport, under a clock of the test's own."""

    clock: Clock
    transport: FaultyTransport
    facts: WatchedFacts
    producer: Producer
    policy: TopicPolicy
    rng: random.Random = field(default_factory=lambda: random.Random(7))

    def publish(self, payload: Any = None, **options: Any) -> Receipt:
        return self.producer.publish(TOPIC, {"n": 1} if payload is None else payload, PublishOptions(**options))

    def consumer(
        self,
        handler: Handler,
        *,
        name: str = "c1",
        transport: Transport | None = None,
        retry: RetryPolicy = RetryPolicy(3, (10.0,)),  # noqa: B008 - frozen
        concurrency: int = 2,
        lease_s: float = 30.0,
        transactional: bool = False,
        ordering: str = "none",
        on_failed_head: str = "block",
        breaker: BreakerPolicy = BreakerPolicy(),  # noqa: B008 - frozen
        max_handler_s: float = 0.0,
        **more: Any,
    ) -> Consumer:
        policy = SubscriptionPolicy(
            TOPIC,
            GROUP,
            retry,
            concurrency,
            lease_s,
            transactional,
            ordering,
            self.policy.partitions if ordering == "key" else 1,
            on_failed_head,
            breaker,
            max_handler_s,
        )
        return Consumer(
            transport or self.transport,
            policy,
            handler,
            name=name,
            facts=self.facts,
            clock=self.clock,
            rng=self.rng,
            **more,
        )

    def unsettled(self) -> int | None:
        return self.transport.admin.lag(TOPIC, GROUP).unsettled


def make_bus(config: BusConfig, clock: Clock, **policy: Any) -> Bus:
    """Open a transport and make the topic and the group."""
    transport = FaultyTransport(open_transport(config, clock if isinstance(clock, ManualClock) else None))
    transport.admin.create_topic(TOPIC)
    transport.admin.create_group(TOPIC, GROUP)
    topic = TopicPolicy(TOPIC, **{"owner": "inventory", **policy})
    if topic.partitions > 1:
        transport.set_partitions(TOPIC, topic.partitions)
    facts = WatchedFacts()
    producer = Producer(lambda _: transport, StaticCatalog(topic), source="/test", facts=facts, clock=clock, node="n1")
    return Bus(clock, transport, facts, producer, topic)


__all__ = [
    "GROUP",
    "NO_OPTIONS",
    "PATIENCE_S",
    "TOPIC",
    "Bus",
    "FaultyTransport",
    "Recorder",
    "SetInbox",
    "WatchedFacts",
    "make_bus",
    "running",
    "until",
]
