"""The store has leased messages of an ordered topic, and its answer is lost: they come first, as if never leased."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance.ordering import Journal
from engine.bus.conformance.running import running, until
from engine.bus.partitions import PartitionedReceiver
from engine.bus.transport import Attempt, Delivery, Outgoing, Settlement, Verdict
from engine.bus.transports.redis_stream import open_transport
from engine.bus.transports.redis_stream.transport import RedisStreamTransport
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from engine.core.store.failures import AnswerLost
from hbus_console.supervisor.standalone import StandaloneStore
from tests.engine.bus import kit
from tests.engine.bus.kit import make_bus
from tests.engine.bus.transports.proxy import Proxy

TOPIC = "booking.changed"
GROUP = "g"
LEASE_MS = 30_000
SEAT_MS = 10_000
PARTITIONS = 3
#: Begins the answer to a read that has leased something.
LEASED = b"got"


@pytest.fixture
def proxy(own_store: StandaloneStore) -> Iterator[Proxy]:
    made = Proxy(own_store.port)
    yield made
    made.close()


@pytest.fixture
def distant_url(own_store: StandaloneStore, proxy: Proxy) -> str:
    return own_store.url.replace(str(own_store.port), str(proxy.port))


@pytest.fixture
def distant(distant_url: str, clock: ManualClock) -> Iterator[RedisStreamTransport]:
    """An ordered topic whose answers can get lost."""
    made = open_transport(BusConfig(url=distant_url), clock)
    made.admin.create_topic(TOPIC)
    made.set_partitions(TOPIC, PARTITIONS)
    made.admin.create_group(TOPIC, GROUP)
    yield made
    made.close()


def owner(transport: RedisStreamTransport) -> PartitionedReceiver:
    """Owns all partitions. The store knows the script of its reads."""
    made = transport.partitioned_receiver(
        TOPIC, GROUP, consumer="c", lease_ms=LEASE_MS, partitions=PARTITIONS, seat_ms=SEAT_MS
    )
    assert len(made.turn(sit=True).owned) == PARTITIONS
    assert made.receive(1, 0) == []
    return made


@pytest.fixture
def reader(distant: RedisStreamTransport) -> Iterator[PartitionedReceiver]:
    made = owner(distant)
    yield made
    made.close()


def publish(transport: RedisStreamTransport, *bodies: bytes, partition: int = 0) -> None:
    outcomes = transport.publish(TOPIC, [Outgoing(body.decode(), body, partition=partition) for body in bodies])
    assert {outcome.status.value for outcome in outcomes} == {"ok"}


def lose(proxy: Proxy, reader: PartitionedReceiver, body: bytes, limit: int = 100) -> None:
    """Read, and lose the answer that has ``body`` in it."""
    proxy.cut_at = (body,)
    with pytest.raises(AnswerLost):
        reader.receive(limit, 0)
    assert not proxy.cut_at


def attempts(deliveries: Sequence[Delivery]) -> list[tuple[bytes, int]]:
    return [(delivery.body, delivery.attempt) for delivery in deliveries]


@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_what_was_leased_unknown_comes_before_anything_new_and_what_is_in_hand_does_not(
    distant: RedisStreamTransport, proxy: Proxy, reader: PartitionedReceiver, clock: ManualClock, partition: int
) -> None:
    publish(distant, b"m0", b"m1", b"m2", partition=partition)
    held = reader.receive(100, 0)
    publish(distant, b"m3", b"m4", partition=partition)
    lose(proxy, reader, b"m3")
    publish(distant, b"m5", partition=partition)

    again = reader.receive(100, 0)

    assert attempts(again) == [(b"m3", 1), (b"m4", 1), (b"m5", 1)]
    assert all(reader.extend([each.receipt for each in (*held, *again)]))
    assert reader.settle([Settlement(each.receipt) for each in (*held, *again)]) == [True] * 6
    clock.advance(LEASE_MS / 1000 + 1)
    assert reader.receive(100, 0) == []
    assert distant.admin.lag(TOPIC, GROUP).unsettled == 0


def test_what_was_leased_unknown_twice_and_by_parts_keeps_its_order(
    distant: RedisStreamTransport, proxy: Proxy, reader: PartitionedReceiver
) -> None:
    publish(distant, *[b"m%d" % n for n in range(8)])
    lose(proxy, reader, b"m0", limit=6)
    # This time only some of them, and with them the lost ones that come again.
    lose(proxy, reader, b"m0", limit=2)
    lose(proxy, reader, b"m0", limit=7)

    found = [each for _ in range(4) for each in reader.receive(2, 0)]

    assert attempts(found) == [(b"m%d" % n, 1) for n in range(8)]


def test_what_came_again_and_got_lost_keeps_its_attempts_and_its_place(
    distant: RedisStreamTransport, proxy: Proxy, reader: PartitionedReceiver, clock: ManualClock
) -> None:
    publish(distant, b"m0", b"m1", b"m2")
    first, second, third = reader.receive(3, 0)
    failure = Attempt(1, clock.now_ms(), 5, "c", "boom")
    assert reader.settle(
        [Settlement(second.receipt, Verdict.RETRY, 0, failure), Settlement(third.receipt, Verdict.RELEASE)]
    ) == [True, True]
    lose(proxy, reader, b"m1")
    publish(distant, b"m3")

    again = reader.receive(100, 0)

    assert attempts(again) == [(b"m1", 2), (b"m2", 1), (b"m3", 1)]
    assert again[0].history == (failure,)
    assert reader.extend([first.receipt]) == [True]


def test_a_lease_that_ran_out_unknown_is_no_attempt(
    distant: RedisStreamTransport, proxy: Proxy, reader: PartitionedReceiver, clock: ManualClock
) -> None:
    publish(distant, b"m0")
    lose(proxy, reader, b"m0")
    clock.advance(LEASE_MS / 1000 + 1)

    assert attempts(reader.receive(100, 0)) == [(b"m0", 1)]


def test_what_other_partitions_gave_is_handed_over_all_the_same(
    distant: RedisStreamTransport, proxy: Proxy, reader: PartitionedReceiver
) -> None:
    for partition in range(PARTITIONS):
        publish(distant, b"p%d-0" % partition, b"p%d-1" % partition, partition=partition)
    proxy.cut_at = (LEASED, b"p1-0")
    found = []
    for _ in range(4):
        try:
            found += reader.receive(100, 0)
        except Unavailable:
            # The one that got lost was the first.
            continue
    assert not proxy.cut_at

    assert sorted(attempts(found)) == [(b"p%d-%d" % (p, n), 1) for p in range(PARTITIONS) for n in range(2)]
    for partition in range(PARTITIONS):
        mine = [each.body for each in found if each.partition == partition]
        assert mine == [b"p%d-0" % partition, b"p%d-1" % partition]


def test_the_next_owner_waits_for_leases_that_nobody_knows_of(
    distant: RedisStreamTransport, proxy: Proxy, reader: PartitionedReceiver, clock: ManualClock
) -> None:
    publish(distant, b"m0")
    lose(proxy, reader, b"m0")
    clock.advance(SEAT_MS / 1000 + 1)
    successor = distant.partitioned_receiver(
        TOPIC, GROUP, consumer="d", lease_ms=LEASE_MS, partitions=PARTITIONS, seat_ms=SEAT_MS
    )
    successor.turn(sit=True)
    assert successor.receive(100, 0) == []
    clock.advance(LEASE_MS / 1000)
    successor.turn(sit=True)

    # It cannot know that nobody handled it.
    assert attempts(successor.receive(100, 0)) == [(b"m0", 2)]
    successor.close()


@pytest.mark.parametrize("partitions", [1, PARTITIONS])
def test_a_consumer_handles_a_key_in_order_though_an_answer_was_lost(
    distant_url: str, proxy: Proxy, clock: ManualClock, partitions: int
) -> None:
    bus = make_bus(BusConfig(url=distant_url), clock, ordering="key", partitions=partitions)
    journal = Journal()
    with running(bus.consumer(journal, ordering="key")):
        for n in range(3):
            bus.publish({"n": n}, key="k")
        bus.facts.wait_for("settled", 3)
        proxy.cut_at = (LEASED, b"marked")
        bus.publish({"n": 3}, key="k", type="marked")
        bus.facts.wait_for("store_lost")
        for n in range(4, 8):
            bus.publish({"n": n}, key="k")
        until(lambda: len(bus.facts.of("settled")) == 8, between=lambda: clock.advance(0.1))
    assert journal.by_key == {"k": list(range(8))}
    assert {fact.attempt for fact in bus.facts.of("settled")} == {1}
    assert bus.transport.admin.lag(kit.TOPIC, kit.GROUP).unsettled == 0
    bus.transport.close()
