"""What goes back to the store in order while a read is under way, and what that read brings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from engine.bus.conformance.ordering import Journal
from engine.bus.consuming.dispatch import InFlight
from engine.bus.consuming.lanes import KeyedDispatcher
from engine.bus.transport import Delivery
from engine.core.clock import ManualClock
from tests.engine.bus.kit import Bus, running, until

LEASE_S = 9.0
SEAT_S = 600.0
#: How long a reader is given to do what it must not do, in seconds; of one that holds to it, it is waited whole.
GRACE_S = 0.1


@pytest.fixture
def bus(any_bus: Bus) -> Bus:
    """Every promise here is kept by both transports."""
    return any_bus


def numbers(deliveries: Sequence[Delivery]) -> list[int]:
    return [int(delivery.body.partition(b'"n":')[2].partition(b"}")[0]) for delivery in deliveries]


def watch_reads(bus: Bus, came: Callable[[list[int]], None]) -> None:
    """Call ``came`` with what a read brings, before the reader has it."""
    make = bus.transport.partitioned_receiver

    def watched(*names: str, **more: Any) -> Any:
        made = make(*names, **more)
        receive = made.receive

        def received(limit: int, wait_s: float) -> list[Delivery]:
            deliveries = receive(limit, wait_s)
            came(numbers(deliveries))
            return deliveries

        made.receive = received  # type: ignore[method-assign]
        return made

    bus.transport.partitioned_receiver = watched  # type: ignore[method-assign]


def test_a_lane_let_go_after_a_freeze_is_not_overtaken_by_what_was_read_meanwhile(
    bus: Bus, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process was stopped for longer than its leases, and keeps its partitions: the store hands out what it had
    and something newer; a worker finds the lease of the head lapsed, before the reader has renewed it; and the store
    has the lane back, and has said so, before the newer one is offered."""
    answered = threading.Event()
    offer, take_answer = KeyedDispatcher.offer, KeyedDispatcher.answered

    def offer_late(lanes: KeyedDispatcher, batch: Sequence[InFlight]) -> Sequence[InFlight]:
        if 3 in numbers([held.delivery for held in batch]) and not answered.is_set():
            bus.transport.failing.discard("settle")
            until(answered.is_set, between=lambda: clock.advance(0.1))
        return offer(lanes, batch)

    def note_answer(lanes: KeyedDispatcher, *deliveries: InFlight) -> None:
        take_answer(lanes, *deliveries)
        if 2 in numbers([held.delivery for held in deliveries]):
            answered.set()

    def let_go(came: list[int]) -> None:
        if 3 in came and not journal.hold[101].is_set():
            assert came == [101, 0, 1, 2, 3]
            journal.hold[101].set()
            until(lambda: consumer.status().queued == 0)

    monkeypatch.setattr(KeyedDispatcher, "offer", offer_late)
    monkeypatch.setattr(KeyedDispatcher, "answered", note_answer)
    watch_reads(bus, let_go)
    journal = Journal()
    journal.hold[101] = threading.Event()
    consumer = bus.consumer(journal, ordering="key", concurrency=1, lease_s=LEASE_S, seat_s=SEAT_S)
    with running(consumer):
        # From then on it reads ahead.
        bus.publish({"n": 100}, key="b")
        bus.facts.wait_for("settled")
        bus.publish({"n": 101}, key="b")
        journal.wait_for(2)
        for n in range(3):
            bus.publish({"n": n}, key="a")
        until(lambda: consumer.status().queued == 3)
        bus.transport.failing |= {"receive", "extend", "settle"}
        bus.transport.wait_for("receive", bus.transport.calls("receive") + 1)
        bus.publish({"n": 3}, key="a")
        clock.advance(LEASE_S)
        bus.transport.failing.discard("receive")
        until(lambda: len(journal.by_key["a"]) == 4, between=lambda: clock.advance(0.1))
    assert journal.by_key["a"] == [0, 1, 2, 3]


def test_what_is_read_while_paused_is_not_overtaken_after_the_pause(bus: Bus, clock: ManualClock) -> None:
    """It goes back unseen, and the pause ends before the store has it."""
    paused, overtaken = threading.Event(), threading.Event()

    def pause(came: list[int]) -> None:
        if 0 in came and not paused.is_set():
            paused.set()
            consumer.pause()
        elif 1 in came:
            overtaken.set()

    watch_reads(bus, pause)
    journal = Journal()
    consumer = bus.consumer(journal, ordering="key", lease_s=LEASE_S, seat_s=SEAT_S)
    bus.transport.failing.add("settle")
    with running(consumer):
        bus.publish({"n": 0}, key="a")
        bus.transport.wait_for("settle", 1)
        bus.publish({"n": 1}, key="a")
        consumer.resume()
        overtaken.wait(GRACE_S)
        bus.transport.failing.clear()
        until(lambda: len(journal.by_key["a"]) == 2, between=lambda: clock.advance(0.1))
    assert journal.by_key["a"] == [0, 1]
