"""A read and a turn at once, and the partitions were another's in between: as when a process was stopped for long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance.ordering import Journal
from engine.bus.consumer import Consumer
from engine.bus.partitions import PartitionedReceiver, Turn
from engine.bus.transport import Delivery
from engine.core.clock import ManualClock
from tests.engine.bus.kit import GROUP, PATIENCE_S, TOPIC, Bus, make_bus, running, until

PARTITIONS = 4
SEAT_S = 9.0
#: A third of it is longer than the owner is away.
LEASE_S = 60.0
MESSAGES = 6


@pytest.fixture(params=["memory", "redis_stream"])
def bus(request: pytest.FixtureRequest, clock: ManualClock, redis_url: str, prefix: str) -> Iterator[Bus]:
    config = BusConfig(type=request.param, url=redis_url, prefix=prefix)
    made = make_bus(config, clock, ordering="key", partitions=PARTITIONS, priorities=False)
    yield made
    made.transport.close()


class End:
    """A consumer's end, of which the next turn or the next read with something in it is made to be a slow one."""

    def __init__(self, inner: PartitionedReceiver) -> None:
        self._inner = inner
        self.in_turn: Callable[[], None] | None = None
        self.after_read: Callable[[], None] | None = None
        #: Set once the reader has taken what it read, or waits until it may.
        self.went_on = threading.Event()
        self._has_read = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def turn(self, *, sit: bool) -> Turn:
        away, self.in_turn = self.in_turn, None
        if away is None:
            return self._inner.turn(sit=sit)
        self.went_on.clear()
        away()
        turn = self._inner.turn(sit=sit)
        assert self.went_on.wait(PATIENCE_S)
        return turn

    def receive(self, limit: int, wait_s: float) -> list[Delivery]:
        if self._has_read:
            self.went_on.set()
        found = self._inner.receive(limit, wait_s)
        self._has_read = self._has_read or bool(found)
        if found and self.after_read is not None:
            late, self.after_read = self.after_read, None
            late()
        return found


class Asked:
    """A lock that tells when somebody has to wait for it."""

    def __init__(self, told: threading.Event) -> None:
        self._lock = threading.Lock()
        self._told = told

    def __enter__(self) -> None:
        if self._lock.locked():
            self._told.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def consumer_at(bus: Bus, journal: Journal) -> tuple[Consumer, End]:
    ends: list[End] = []

    def made(*args: Any, **more: Any) -> Any:
        ends.append(End(make(*args, **more)))
        return ends[-1]

    make, bus.transport.partitioned_receiver = bus.transport.partitioned_receiver, made  # type: ignore[method-assign]
    consumer = bus.consumer(journal, ordering="key", seat_s=SEAT_S, lease_s=LEASE_S)
    consumer._scope.in_flight.moving = Asked(ends[0].went_on)  # type: ignore[assignment]
    return consumer, ends[0]


def another(bus: Bus) -> PartitionedReceiver:
    """Somebody who has taken all partitions over by now."""
    made = bus.transport.ordered.partitioned_receiver(
        TOPIC, GROUP, consumer="c2", lease_ms=60_000, partitions=PARTITIONS, seat_ms=60_000
    )
    assert len(made.turn(sit=True).owned) == PARTITIONS
    return made


def leave(other: PartitionedReceiver) -> None:
    other.turn(sit=False)
    other.give_up(range(PARTITIONS))
    other.close()


def test_what_is_read_under_a_new_epoch_while_the_turn_is_under_way_is_kept_and_keeps_its_order(
    bus: Bus, clock: ManualClock
) -> None:
    # Given an owner that was stopped for so long that another had its partitions, and gave them up again
    journal = Journal()
    journal.hold[0] = threading.Event()
    consumer, end = consumer_at(bus, journal)

    def away() -> None:
        clock.advance(SEAT_S + 1)
        other = another(bus)
        for n in range(MESSAGES):
            bus.publish({"n": n}, key="a")
        leave(other)

    with running(consumer):
        until(lambda: len(consumer.status().partitions) == PARTITIONS)
        # When it reads under its new epochs before its turn has told of them
        end.in_turn = away
        until(end.went_on.is_set, between=lambda: clock.advance(0.1))
        journal.hold[0].set()
        until(lambda: len(bus.facts.of("settled")) == MESSAGES, between=lambda: clock.advance(0.1))
    # Then nothing of that is let go of: what comes after it would be handled first
    assert journal.by_key == {"a": list(range(MESSAGES))}
    assert {fact.attempt for fact in bus.facts.of("settled")} == {1}
    assert bus.facts.of("lease_lost") == []


def test_what_was_read_before_its_partition_was_lost_is_not_begun(bus: Bus, clock: ManualClock) -> None:
    # Given a read whose answer comes after its partitions were another's, long before its leases end
    journal = Journal()
    consumer, end = consumer_at(bus, journal)
    others: list[PartitionedReceiver] = []

    def late() -> None:
        bus.transport.failing.add("turn")
        clock.advance(SEAT_S + 1)
        others.append(another(bus))
        bus.transport.failing.clear()
        until(lambda: not consumer.status().partitions, between=lambda: clock.advance(0.1))

    end.after_read = late
    for n in range(2):
        bus.publish({"n": n}, key="a")
    with running(consumer):
        until(lambda: bool(others) and end.went_on.is_set(), between=lambda: clock.advance(0.01))
        assert journal.by_key == {}
        leave(others[0])
        until(lambda: len(bus.facts.of("settled")) == 2, between=lambda: clock.advance(0.5))
    # Then they are handled by whoever owns the partition once those leases have ended, and by nobody else
    assert journal.by_key == {"a": [0, 1]}
    assert bus.facts.of("lease_lost") == []
