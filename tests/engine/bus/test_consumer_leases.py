"""Leases: the heartbeat keeps a long handler's delivery its own, and what is lost is noticed."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from engine.bus.context import Context
from engine.bus.message import Message
from engine.bus.transport import Delivery, Receiver, Settlement
from engine.core.clock import ManualClock
from tests.engine.bus.kit import GROUP, PATIENCE_S, TOPIC, Bus, FaultyTransport, Recorder, running, until

LEASE_S = 9.0


class Holder(Recorder):
    """A handler that runs until it is let go, and notes the context it ran in."""

    def __init__(self) -> None:
        super().__init__(self._hold)
        self.go_on = threading.Event()
        self.contexts: list[Context] = []
        self.fail = False

    def _hold(self, message: Message, context: Context) -> None:
        self.contexts.append(context)
        assert self.go_on.wait(PATIENCE_S)
        if self.fail:
            raise ValueError("failed at last")


@pytest.fixture
def other(any_bus: Bus) -> FaultyTransport:
    """The same store, through the end of another consumer."""
    return FaultyTransport(any_bus.transport.inner)


def test_a_handler_that_outlives_its_lease_is_not_run_twice(
    any_bus: Bus, other: FaultyTransport, clock: ManualClock
) -> None:
    any_bus.publish({"n": 1})
    holder, idle = Holder(), Recorder()
    with running(any_bus.consumer(holder, lease_s=LEASE_S)):
        holder.wait_for(1)
        with running(any_bus.consumer(idle, name="c2", lease_s=LEASE_S, transport=other)):
            for beat in range(1, 11):
                clock.advance(LEASE_S / 3)
                any_bus.transport.wait_for("extend", beat)
                # The other has looked again since the clock moved.
                other.wait_for("receive", other.calls("receive") + 1)
            assert not holder.contexts[0].lease_lost
            holder.go_on.set()
            any_bus.facts.wait_for("settled")
    assert (len(holder.calls), len(idle.calls)) == (1, 0)
    assert any_bus.unsettled() == 0


def test_what_waits_in_hand_keeps_its_lease_too(bus: Bus, clock: ManualClock) -> None:
    for n in range(4):
        bus.publish({"n": n})
    holder = Holder()
    # One quick handling first teaches the consumer to read ahead.
    holder.go_on.set()
    consumer = bus.consumer(holder, concurrency=1, lease_s=LEASE_S)
    with running(consumer):
        bus.facts.wait_for("settled", 4)
        holder.go_on.clear()
        for n in range(3):
            bus.publish({"n": n})
        holder.wait_for(5)
        for _ in range(6):
            beats = bus.transport.calls("extend")
            clock.advance(LEASE_S / 3)
            bus.transport.wait_for("extend", beats + 1)
        holder.go_on.set()
        bus.facts.wait_for("settled", 7)
    assert len(holder.calls) == 7
    assert bus.facts.of("lease_lost") == []


def test_a_lost_lease_is_told_to_the_handler_and_its_failure_decides_nothing(bus: Bus, clock: ManualClock) -> None:
    bus.publish({"n": 1})
    other = FaultyTransport(bus.transport.inner)
    holder, taker = Holder(), Recorder()
    holder.fail = True
    with running(bus.consumer(holder, lease_s=LEASE_S, concurrency=1)):
        holder.wait_for(1)
        # Nothing more may be read here, or this consumer would take its own message back.
        bus.transport.failing |= {"receive", "extend"}
        clock.advance(LEASE_S)
        with running(bus.consumer(taker, name="c2", transport=other)):
            bus.facts.wait_for("settled")
            bus.transport.failing.remove("extend")
            until(lambda: holder.contexts[0].lease_lost, between=lambda: clock.advance(1))
            holder.go_on.set()
            (lost,) = bus.facts.wait_for("lease_lost")
    assert "failed at last" in lost.detail
    assert len(taker.calls) == 1
    assert bus.facts.of("retried") == []
    assert bus.unsettled() == 0


def test_a_delivery_that_comes_again_while_its_handler_runs_is_not_run_again_but_kept(
    bus: Bus, clock: ManualClock
) -> None:
    bus.publish({"n": 1})
    holder = Holder()
    with running(bus.consumer(holder, lease_s=LEASE_S)):
        holder.wait_for(1)
        # The heart stops for longer than the lease, so the store hands the message out again: to us.
        bus.transport.failing.add("extend")
        clock.advance(LEASE_S + 1)
        bus.facts.wait_for("store_lost")
        bus.transport.failing.clear()
        reads = bus.transport.calls("receive")
        until(lambda: bus.transport.calls("receive") > reads + 3, between=lambda: clock.advance(LEASE_S / 6))
        holder.go_on.set()
        bus.facts.wait_for("settled")
        bus.transport.wait_for("receive", bus.transport.calls("receive") + 2)
    assert len(holder.calls) == 1
    assert bus.unsettled() == 0


def test_what_a_stopped_process_had_read_is_checked_before_it_is_run(bus: Bus, clock: ManualClock) -> None:
    make = bus.transport.receiver

    class Stopped:
        """The process is stopped after a read for longer than the lease; meanwhile another consumer is done with it."""

        def __init__(self, inner: Receiver) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def receive(self, limit: int, wait_s: float) -> list[Delivery]:
            deliveries = self._inner.receive(limit, wait_s)
            if deliveries:
                clock.advance(LEASE_S + 1)
                other = bus.transport.inner.receiver(TOPIC, GROUP, consumer="c2", lease_ms=9_000)
                other.settle([Settlement(delivery.receipt) for delivery in other.receive(1, 1.0)])
            return deliveries

    bus.transport.receiver = lambda *a, **k: Stopped(make(*a, **k))  # type: ignore[method-assign]
    bus.publish({"n": 1})
    handler = Recorder()
    with running(bus.consumer(handler, lease_s=LEASE_S)):
        bus.transport.wait_for("receive", 3)
    assert bus.unsettled() == 0
    assert handler.calls == []
