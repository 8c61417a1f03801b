"""Consumers that run under a test's eye: facts and calls one can wait for, and waits that are bounded."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.conformance.base import PATIENCE_S, Workbench
from engine.bus.consumer import Consumer, Handler
from engine.bus.fact_kinds import BUS_KINDS
from engine.bus.facts import Fact, facts_of
from engine.bus.options import PublishOptions
from engine.bus.partitions import Partitioned
from engine.bus.policy import RetryPolicy, SubscriptionPolicy
from engine.bus.producer import BatchItem, Producer, Receipt
from engine.bus.transport import Transport
from engine.core.facts import FactBatch

#: Between two looks at what shall become true; it decides nothing.
LOOK_S = 0.005


class FactRecorder:
    """An emitter that keeps every fact of the bus in a list, and takes none of a kind that nobody declares."""

    def __init__(self) -> None:
        self.seen: list[Fact] = []

    def emit(self, facts: Sequence[FactBatch]) -> None:
        undeclared = {batch.kind for batch in facts} - BUS_KINDS.keys()
        assert not undeclared, f"{undeclared} are no kinds of facts"
        self.seen.extend(facts_of(facts))

    def kinds(self) -> list[str]:
        """The kind of each fact."""
        return [fact.kind for fact in self.seen]


class WatchedFacts(FactRecorder):
    """One whose facts can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def emit(self, facts: Sequence[FactBatch]) -> None:
        with self._changed:
            super().emit(facts)
            self._changed.notify_all()

    def of(self, kind: str) -> list[Fact]:
        with self._changed:
            return [fact for fact in self.seen if fact.kind == kind]

    def wait_for(self, kind: str, count: int = 1) -> list[Fact]:
        """The facts of ``kind`` as soon as there are ``count``; fails the test otherwise."""
        with self._changed:
            there = self._changed.wait_for(lambda: sum(fact.kind == kind for fact in self.seen) >= count, PATIENCE_S)
        assert there, f"{count} {kind} expected, but {[fact.kind for fact in self.seen]}"
        return self.of(kind)


class Recorder:
    """A handler that notes what it is given and then does what ``then`` says."""

    def __init__(self, then: Callable[[Any, Any], None] | None = None) -> None:
        self.calls: list[Any] = []
        self._then = then
        self._changed = threading.Condition()

    def __call__(self, message: Any, context: Any) -> None:
        with self._changed:
            self.calls.append(message)
            self._changed.notify_all()
        if self._then is not None:
            self._then(message, context)

    def wait_for(self, count: int) -> None:
        """Return once it was called ``count`` times."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.calls) >= count, PATIENCE_S), len(self.calls)


class SetInbox:
    """An inbox in memory: remembers, and rolls back when the effect fails."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str, str]] = set()
        self._lock = threading.Lock()

    def once(self, subscription: str, source: str, message_id: str, effect: Callable[[], object]) -> bool:
        with self._lock:
            if (subscription, source, message_id) in self.seen:
                return False
            effect()
            self.seen.add((subscription, source, message_id))
            return True


def until(true: Callable[[], bool], *, between: Callable[[], object] = lambda: None) -> None:
    """Look again and again, calling ``between`` two looks; the real time between them decides nothing."""
    ticks = threading.Event()
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it never became true"
        between()
        ticks.wait(LOOK_S)


@contextmanager
def running(*consumers: Consumer) -> Iterator[None]:
    """Start consumers, and stop them whatever the test does."""
    for consumer in consumers:
        consumer.start()
    try:
        yield
    finally:
        for consumer in consumers:
            consumer.stop(0.0)


class House:
    """A producer and consumers of the workbench's topic, with their evidence."""

    def __init__(self, bench: Workbench, transport: Transport, *, partitions: int = 1) -> None:
        self.bench = bench
        self.transport = transport
        self.facts = WatchedFacts()
        self.topic = TopicPolicy(bench.topic, "conformance", partitions=partitions)
        if partitions > 1:
            assert isinstance(transport, Partitioned)
            transport.set_partitions(bench.topic, partitions)
        self.producer = self.make_producer()

    def make_producer(self, **more: Any) -> Producer:
        settings: dict[str, Any] = {"source": "/conformance", "facts": self.facts, "clock": self.bench.clock, **more}
        return Producer(lambda _: self.transport, StaticCatalog(self.topic), **settings)

    def publish(self, number: int = 1, **options: Any) -> Receipt:
        """One message ``{"n": number}``."""
        return self.producer.publish(self.bench.topic, {"n": number}, PublishOptions(**options))

    def publish_many(self, numbers: Sequence[int], key: Callable[[int], str] = lambda _: "") -> None:
        items = [BatchItem({"n": number}, PublishOptions(key=key(number))) for number in numbers]
        answers = self.producer.publish_batch(self.bench.topic, items)
        assert all(isinstance(answer, Receipt) for answer in answers), answers

    def consumer(
        self,
        handler: Handler,
        *,
        name: str = "one",
        concurrency: int = 2,
        retry: RetryPolicy = RetryPolicy(3, (0.5,)),  # noqa: B008 - frozen
        ordering: str = "none",
        on_failed_head: str = "block",
        transactional: bool = False,
        transport: Transport | None = None,
        **more: Any,
    ) -> Consumer:
        policy = SubscriptionPolicy(
            self.bench.topic,
            self.bench.group,
            retry,
            concurrency,
            self.bench.lease_ms / 1000,
            transactional,
            ordering,
            self.topic.partitions if ordering == "key" else 1,
            on_failed_head,
        )
        return Consumer(
            transport or self.transport,
            policy,
            handler,
            name=name,
            facts=self.facts,
            clock=self.bench.clock,
            rng=random.Random(7),
            **more,
        )

    def numbers(self, handler: Recorder) -> list[int]:
        return [message.json()["n"] for message in handler.calls]
