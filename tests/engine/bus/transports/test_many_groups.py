"""Many groups at once on Redis Streams: a few round trips, whatever number of groups and partitions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance.base import bury
from engine.bus.errors import GroupLost
from engine.bus.many_groups import ask_stands, with_dead
from engine.bus.partitions import Partitioned
from engine.bus.transport import Outgoing, Transport
from engine.bus.transports.redis_stream import open_transport
from engine.core.store.failures import Refused
from engine.core.store.link import Link
from hbus_console.supervisor.standalone import StandaloneStore
from tests.store_work import store_reads

TOPICS = [f"booking.{number}" for number in range(150)]
PARTITIONED = "booking.ordered"
GROUPS = [(topic, group) for topic in (*TOPICS, PARTITIONED) for group in ("billing", "audit")]


@pytest.fixture
def transport(own_store: StandaloneStore) -> Iterator[Transport]:
    made = open_transport(BusConfig(type="redis_stream", url=own_store.url, prefix="t"))
    for topic, group in GROUPS:
        made.admin.create_topic(topic)
        made.admin.create_group(topic, group)
    assert isinstance(made, Partitioned)
    made.set_partitions(PARTITIONED, 8)
    yield made
    made.close()


def _die(transport: Transport, topic: str, group: str, partition: int) -> None:
    transport.publish(topic, [Outgoing(f"m{partition}", b"x", partition=partition)])
    receiver = transport.receiver(topic, group, consumer="c", lease_ms=30_000, partition=partition)
    (delivery,) = receiver.receive(1, 1.0)
    assert bury(receiver, delivery)
    receiver.close()


def test_dead_letters_of_any_partition_are_found_in_a_few_round_trips(
    transport: Transport, own_store: StandaloneStore
) -> None:
    _die(transport, PARTITIONED, "audit", 5)
    _die(transport, TOPICS[7], "billing", 0)
    with store_reads(own_store.url) as cost:
        found = with_dead(transport.admin, GROUPS)
    assert found == [(TOPICS[7], "billing"), (PARTITIONED, "audit")]
    cost.at_most(20, f"reads for {len(GROUPS)} groups")


def test_where_all_stand_is_told_in_a_few_round_trips(transport: Transport, own_store: StandaloneStore) -> None:
    for partition in range(8):
        transport.publish(PARTITIONED, [Outgoing(f"m{partition}", b"x", partition=partition)])
    transport.admin.delete_group(TOPICS[3], "audit")
    ask_stands(transport.admin, GROUPS[:1])
    with store_reads(own_store.url) as cost:
        tell = ask_stands(transport.admin, GROUPS)
    # The script's keys are some 700 bytes a partition, of which a read takes sixteen KiB.
    cost.at_most(40, f"reads for {len(GROUPS)} groups")
    assert tell((PARTITIONED, "billing")).lag.waiting == 8
    assert tell((PARTITIONED, "billing")).checkpoint == transport.admin.checkpoint(PARTITIONED, "billing")
    with pytest.raises(GroupLost):
        tell((TOPICS[3], "audit"))


def test_one_that_is_refused_keeps_no_other_from_its_answer(transport: Transport, own_store: StandaloneStore) -> None:
    link = Link.open(own_store.url)
    link.command("SET", "text", "x")
    before, refused, after = link.each([("ECHO", "a"), ("XLEN", "text"), ("ECHO", "b")])
    assert (before, after) == (b"a", b"b")
    assert isinstance(refused, Refused)
    link.close()


def test_a_script_that_the_store_forgot_is_told_again(transport: Transport, own_store: StandaloneStore) -> None:
    ask_stands(transport.admin, GROUPS[:1])
    link = Link.open(own_store.url)
    link.command("SCRIPT", "FLUSH")
    link.close()
    assert ask_stands(transport.admin, GROUPS)(GROUPS[0]).lag.unsettled == 0
