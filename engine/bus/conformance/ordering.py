"""Consumers of an ordered topic: each key in its order, whatever fails and whoever comes and goes."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import pytest

from engine.bus.conformance.base import PATIENCE_S, TransportTests, Workbench
from engine.bus.conformance.promises import keeps, needs
from engine.bus.conformance.running import House, Recorder, running, until
from engine.bus.context import Context
from engine.bus.message import Message
from engine.bus.partitions import Partitioned, PartitionedReceiver, partition_of
from engine.bus.transport import Delivery, Transport

PARTITIONS = 4
KEYS = 7

PassTime = Callable[[float], None]


class Journal(Recorder):
    """Notes in which order each key's messages were handled, and whether two of one key ever ran at once."""

    def __init__(self, fail: Iterable[int] = ()) -> None:
        super().__init__(self._handle)
        self.by_key: dict[str, list[int]] = defaultdict(list)
        self.together: list[str] = []
        #: Number → what its handler waits for.
        self.hold: dict[int, threading.Event] = {}
        self.fail = set(fail)
        self._running: set[str] = set()
        self._lock = threading.Lock()

    def _handle(self, message: Message, context: Context) -> None:
        key, number = message.partitionkey, message.json()["n"]
        with self._lock:
            if key in self._running:
                self.together.append(key)
            self._running.add(key)
        try:
            if number in self.hold:
                assert self.hold[number].wait(PATIENCE_S)
            if number in self.fail:
                raise ValueError(f"{number} fails")
            self.by_key[key].append(number)
        finally:
            with self._lock:
                self._running.discard(key)


@needs("ordered", "partitions")
class OrderingConformance(TransportTests):
    @pytest.fixture
    def ordered(self, bench: Workbench, transport: Transport) -> House:
        return House(bench, transport, partitions=PARTITIONS)

    @keeps("K5", "K9")
    def test_each_key_keeps_its_order_over_many_threads_and_consumers(self, ordered: House) -> None:
        total = KEYS * 60
        ordered.publish_many(range(total), key=lambda number: f"k{number % KEYS}")
        journal = Journal()
        consumers = [
            ordered.consumer(journal, name=name, ordering="key", concurrency=4) for name in ("one", "two", "three")
        ]
        with running(*consumers):
            ordered.facts.wait_for("settled", total)
        assert journal.by_key == {f"k{key}": list(range(key, total, KEYS)) for key in range(KEYS)}
        assert journal.together == []

    @keeps("K5", "K28")
    def test_a_failed_head_blocks_its_key_and_nobody_else(self, ordered: House, pass_time: PassTime) -> None:
        for number, key in enumerate("aabab"):
            ordered.publish(number, key=key)
        journal = Journal(fail={0})
        with running(ordered.consumer(journal, ordering="key")):
            ordered.facts.wait_for("retried")
            ordered.facts.wait_for("settled", 2)
            assert journal.by_key == {"b": [2, 4]}
            journal.fail.clear()
            until(lambda: len(ordered.facts.of("settled")) == 5, between=lambda: pass_time(0.05))
        assert journal.by_key["a"] == [0, 1, 3]

    @keeps("K28")
    def test_a_rebalance_keeps_the_order_and_gives_nothing_settled_again(
        self, ordered: House, pass_time: PassTime
    ) -> None:
        total = KEYS * 40
        ordered.publish_many(range(total // 2), key=lambda number: f"k{number % KEYS}")
        journal = Journal()
        with running(ordered.consumer(journal, name="one", ordering="key")):
            ordered.facts.wait_for("settled", total // 4)
            # One joins, and more comes
            with running(ordered.consumer(journal, name="two", ordering="key")):
                ordered.publish_many(range(total // 2, total), key=lambda number: f"k{number % KEYS}")
                until(
                    lambda: len(ordered.facts.of("settled")) >= 3 * total // 4,
                    between=lambda: pass_time(0.05),
                )
            # It leaves again
            until(lambda: len(ordered.facts.of("settled")) >= total, between=lambda: pass_time(0.05))
        assert journal.by_key == {f"k{key}": list(range(key, total, KEYS)) for key in range(KEYS)}
        assert journal.together == []

    @keeps("K42")
    def test_what_is_handed_over_while_a_read_is_under_way_is_not_overtaken_by_what_it_brings(
        self, ordered: House, pass_time: PassTime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        leaving, staying = (
            next(key for n in count() if partition_of(key := f"k{n}", "", PARTITIONS) == partition)
            for partition in (PARTITIONS - 1, 0)
        )
        came, go_on = threading.Event(), threading.Event()
        assert isinstance(ordered.transport, Partitioned)
        make = ordered.transport.partitioned_receiver

        def make_late(topic: str, group: str, **more: Any) -> PartitionedReceiver:
            """Of consumer one: the read that brings number 2 has its answer, and is late in looking at it."""
            made = make(topic, group, **more)
            receive = made.receive

            def receive_late(limit: int, wait_s: float) -> list[Delivery]:
                deliveries = receive(limit, wait_s)
                if any(b'"n":2}' in delivery.body for delivery in deliveries) and not came.is_set():
                    came.set()
                    assert go_on.wait(PATIENCE_S)
                return deliveries

            if more["consumer"] == "one":
                monkeypatch.setattr(made, "receive", receive_late)
            return made

        monkeypatch.setattr(ordered.transport, "partitioned_receiver", make_late)
        journal = Journal()
        journal.hold[101] = threading.Event()
        one = ordered.consumer(journal, name="one", ordering="key", concurrency=1)
        with running(one):
            # It has handled one, and reads ahead; another keeps its only thread.
            ordered.publish(100, key=staying)
            ordered.facts.wait_for("settled")
            ordered.publish(101, key=staying)
            journal.wait_for(2)
            for number in range(2):
                ordered.publish(number, key=leaving)
            until(lambda: one.status().queued == 2)
            ordered.publish(2, key=leaving)
            assert came.wait(PATIENCE_S)
            with running(ordered.consumer(journal, name="two", ordering="key")):
                until(lambda: len(ordered.facts.of("released")) == 2, between=lambda: pass_time(0.05))
                journal.hold[101].set()
                ordered.facts.wait_for("settled", 2)
                go_on.set()
                until(lambda: len(journal.by_key[leaving]) == 3, between=lambda: pass_time(0.05))
        assert journal.by_key[leaving] == [0, 1, 2]
