"""Partitions change hands between living consumers: nothing reordered, nothing settled twice, nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance.ordering import Journal
from engine.bus.partitions import partition_of
from engine.core.clock import ManualClock
from tests.engine.bus.kit import GROUP, PATIENCE_S, TOPIC, Bus, FaultyTransport, WatchedFacts, make_bus, running, until

PARTITIONS = 4
SEAT_S = 9.0


@pytest.fixture(params=["memory", "redis_stream"])
def bus(request: pytest.FixtureRequest, clock: ManualClock, redis_url: str, prefix: str) -> Iterator[Bus]:
    config = BusConfig(type=request.param, url=redis_url, prefix=prefix)
    made = make_bus(config, clock, ordering="key", partitions=PARTITIONS, priorities=False)
    yield made
    made.transport.close()


def key_of(partition: int) -> str:
    """A key that lies there."""
    return next(f"k{n}" for n in range(1000) if partition_of(f"k{n}", "", PARTITIONS) == partition)


def test_a_second_consumer_gets_half_and_a_third_no_more_than_its_share(bus: Bus, clock: ManualClock) -> None:
    consumers = [bus.consumer(Journal(), name=f"c{n}", ordering="key", seat_s=SEAT_S) for n in range(3)]
    owned = lambda: [len(consumer.status().partitions) for consumer in consumers]  # noqa: E731
    with running(consumers[0]):
        until(lambda: owned()[0] == 4)
        with running(consumers[1]):
            until(lambda: sorted(owned()[:2]) == [2, 2], between=lambda: clock.advance(0.1))
            with running(consumers[2]):
                until(lambda: sorted(owned()) == [1, 1, 2], between=lambda: clock.advance(0.1))
            until(lambda: sorted(owned()[:2]) == [2, 2], between=lambda: clock.advance(0.1))


def test_what_runs_is_ended_before_its_partition_is_handed_over(bus: Bus, clock: ManualClock) -> None:
    """Partition 3 leaves; its head runs, two wait behind it. All three are handled once, in order."""
    key = key_of(3)
    for n in range(3):
        bus.publish({"n": n}, key=key)
    journal, heir = Journal(), Journal()
    journal.hold[0] = threading.Event()
    first = bus.consumer(journal, ordering="key", seat_s=SEAT_S)
    second = bus.consumer(heir, name="c2", ordering="key", seat_s=SEAT_S)
    with running(first):
        until(lambda: first.status().queued == 2)
        with running(second):
            # What nobody has begun goes back at once; what runs holds the partition.
            until(lambda: len(bus.facts.of("released")) == 2, between=lambda: clock.advance(0.1))
            until(lambda: 2 in second.status().partitions, between=lambda: clock.advance(0.1))
            assert 3 in first.status().partitions
            assert heir.by_key == {}
            journal.hold[0].set()
            until(lambda: len(bus.facts.of("settled")) == 3, between=lambda: clock.advance(0.1))
    assert (journal.by_key[key], heir.by_key[key]) == ([0], [1, 2])
    assert bus.facts.of("lease_lost") == []


def test_a_head_that_waits_for_its_next_attempt_holds_no_partition(bus: Bus, clock: ManualClock) -> None:
    key = key_of(3)
    for n in range(2):
        bus.publish({"n": n}, key=key)
    journal, heir = Journal(), Journal()
    journal.fail = {0}
    first = bus.consumer(journal, ordering="key", seat_s=SEAT_S)
    second = bus.consumer(heir, name="c2", ordering="key", seat_s=SEAT_S)
    with running(first):
        bus.facts.wait_for("retried")
        with running(second):
            until(lambda: len(bus.facts.of("settled")) == 2, between=lambda: clock.advance(0.05))
    assert heir.by_key[key] == [0, 1]
    # The attempt that failed at the first is counted at the second.
    assert [fact.attempt for fact in bus.facts.of("settled")] == [2, 1]


def test_a_paused_consumer_leaves_its_partitions_to_others_and_gets_its_share_again(
    bus: Bus, clock: ManualClock
) -> None:
    first = bus.consumer(Journal(), ordering="key", seat_s=SEAT_S)
    second = bus.consumer(Journal(), name="c2", ordering="key", seat_s=SEAT_S)
    with running(first, second):
        until(lambda: len(first.status().partitions) == 2, between=lambda: clock.advance(0.1))
        first.pause()
        until(lambda: len(second.status().partitions) == 4, between=lambda: clock.advance(0.1))
        first.resume()
        until(lambda: len(first.status().partitions) == 2, between=lambda: clock.advance(0.1))


def test_a_frozen_owner_that_wakes_changes_nothing(bus: Bus, clock: ManualClock) -> None:
    """The fence: what an owner settles after others have taken over is refused, whatever it believes."""
    key = key_of(0)
    bus.publish({"n": 0}, key=key)
    journal, heir = Journal(), Journal()
    journal.hold[0] = threading.Event()
    first = bus.consumer(journal, ordering="key", seat_s=SEAT_S, lease_s=SEAT_S)
    with running(first):
        until(lambda: first.status().in_flight == 1)
        # Neither its turns nor its heartbeat reach the store, as if its process were stopped.
        thawed = make_other(bus)
        bus.transport.failing |= {"turn", "extend"}
        second = thawed.consumer(heir, name="c2", ordering="key", seat_s=SEAT_S, lease_s=SEAT_S)
        with running(second):
            until(lambda: heir.by_key[key] == [0], between=lambda: clock.advance(0.5))
            journal.hold[0].set()
            bus.facts.wait_for("lease_lost")
    assert len(thawed.facts.of("settled")) == 1
    assert bus.facts.of("settled") == []
    assert bus.transport.admin.counts(TOPIC, GROUP)["settled"] == 1


def test_a_store_that_lost_everything_gets_every_partition_again(bus: Bus, clock: ManualClock) -> None:
    journal = Journal()
    consumer = bus.consumer(journal, ordering="key", seat_s=SEAT_S)
    with running(consumer):
        until(lambda: len(consumer.status().partitions) == 4)
        bus.transport.admin.delete_topic(TOPIC)
        bus.transport.admin.create_topic(TOPIC)
        for n, partition in enumerate(range(PARTITIONS)):
            bus.publish({"n": n}, key=key_of(partition))
        until(lambda: len(bus.facts.of("settled")) == 4, between=lambda: clock.advance(0.2))
    assert bus.transport.partitions(TOPIC) == PARTITIONS
    assert bus.facts.of("group_lost")
    assert bus.unsettled() == 0


def make_other(bus: Bus) -> Bus:
    """The same store through an end of its own, with its own failures and facts."""
    return Bus(bus.clock, FaultyTransport(bus.transport.inner), WatchedFacts(), bus.producer, bus.policy)


def test_waiting_for_a_partition_ends_with_a_stop(bus: Bus, clock: ManualClock) -> None:
    first = bus.consumer(Journal(), ordering="key", seat_s=SEAT_S)
    second = bus.consumer(Journal(), name="c2", ordering="key", seat_s=SEAT_S)
    with running(first):
        until(lambda: len(first.status().partitions) == 4)
        with running(second):
            done = threading.Event()
            threading.Thread(target=lambda: (second.stop(5.0), done.set()), daemon=True).start()  # type: ignore[func-returns-value]
            assert done.wait(PATIENCE_S)
    assert second.status().state == "stopped"


def test_a_read_of_no_partition_does_not_tell_that_the_store_is_back(bus: Bus, clock: ManualClock) -> None:
    bus.transport.failing.add("turn")
    consumer = bus.consumer(Journal(), ordering="key", seat_s=SEAT_S)
    with running(consumer):
        bus.facts.wait_for("store_lost")
        bus.transport.wait_for("receive", bus.transport.calls("receive") + 2)
        assert bus.facts.of("store_back") == []
        assert consumer.status().state == "store lost"
        bus.transport.failing.clear()
        until(lambda: bool(bus.facts.of("store_back")), between=lambda: clock.advance(1))
    assert len(bus.facts.of("store_lost")) == len(bus.facts.of("store_back")) == 1
