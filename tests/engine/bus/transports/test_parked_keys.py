"""Parked keys on Redis Streams: a few round trips to list them, whatever number of keys and partitions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance.partitions import park
from engine.bus.partitions import Partitioned
from engine.bus.transport import Outgoing
from engine.bus.transports.redis_stream import open_transport
from hbus_console.supervisor.standalone import StandaloneStore
from tests.store_work import store_reads

TOPIC, GROUP = "booking.ordered", "billing"
PARTITIONS, KEYS = 8, 240
#: Who lists them asks how many partitions there are, for their keys, and then for what lies aside of these.
FEW = 12


@pytest.fixture
def keeper(own_store: StandaloneStore) -> Iterator[Partitioned]:
    made = open_transport(BusConfig(type="redis_stream", url=own_store.url, prefix="t"))
    assert isinstance(made, Partitioned)
    made.admin.create_topic(TOPIC)
    made.admin.create_group(TOPIC, GROUP)
    made.set_partitions(TOPIC, PARTITIONS)
    for partition in range(PARTITIONS):
        mine = range(partition, KEYS, PARTITIONS)
        made.publish(TOPIC, [Outgoing(f"m{n}", b"x", partition=partition) for n in mine])
    one = made.partitioned_receiver(TOPIC, GROUP, consumer="c", lease_ms=30_000, partitions=PARTITIONS, seat_ms=30_000)
    one.turn(sit=True)
    parked = 0
    while parked < KEYS:
        for each in one.receive(KEYS, 1.0):
            assert park(one, each, f"room-{parked:03}", b"{}")
            parked += 1
    yield made
    one.close()
    made.close()


def test_all_of_them_are_listed_in_a_few_round_trips(keeper: Partitioned, own_store: StandaloneStore) -> None:
    with store_reads(own_store.url) as cost:
        found = keeper.parked(TOPIC, GROUP, 200)
    assert [each.key for each in found] == [f"room-{n:03}" for n in range(200)]
    assert {each.messages for each in found} == {1}
    cost.at_most(FEW, "reads for 200 of 240 keys")


def test_one_is_found_by_its_head_in_a_few_round_trips(keeper: Partitioned, own_store: StandaloneStore) -> None:
    (last,) = keeper.parked(TOPIC, GROUP, key="room-239")
    with store_reads(own_store.url) as cost:
        assert keeper.parked(TOPIC, GROUP, head=last.position) == [last]
    cost.at_most(FEW, "reads for one of 240 keys")
    with store_reads(own_store.url) as cost:
        assert keeper.parked(TOPIC, GROUP, head="no position") == []
    cost.at_most(2, "reads for what is no position")


def test_what_waits_behind_a_key_is_shown_in_a_few_round_trips(keeper: Partitioned, own_store: StandaloneStore) -> None:
    with store_reads(own_store.url) as cost:
        (head,) = keeper.set_aside(TOPIC, GROUP, "room-007")
    assert head.body == b"x"
    cost.at_most(FEW, "reads for the messages of a key")
