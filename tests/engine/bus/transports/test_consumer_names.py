"""Names that consumers leave in a group: told, and forgotten only when nothing is pending with them."""

from __future__ import annotations

import pytest
import redis

from engine.bus.consumer_names import NamesConsumers
from engine.bus.errors import GroupLost
from engine.bus.transport import Outgoing, Priority, Settlement, Transport, Verdict
from engine.core.clock import ManualClock
from tests.engine.bus.transports.conftest import GROUP, LEASE_MS, TOPIC, Publish

HOUR_MS = 3_600_000


@pytest.fixture
def names(transport: Transport) -> NamesConsumers:
    assert isinstance(transport.admin, NamesConsumers)
    return transport.admin


def read(transport: Transport, consumer: str, settle: bool) -> None:
    receiver = transport.receiver(TOPIC, GROUP, consumer=consumer, lease_ms=LEASE_MS)
    batch = receiver.receive(1, 0)
    if settle:
        receiver.settle([Settlement(each.receipt) for each in batch])
    receiver.close()


def test_names_are_told_with_what_is_pending(transport: Transport, names: NamesConsumers, publish: Publish) -> None:
    publish(b"x", b"y")
    read(transport, "here", settle=True)
    read(transport, "gone", settle=False)
    assert [(each.name, each.pending) for each in names.consumer_names(TOPIC, GROUP)] == [("gone", 1), ("here", 0)]
    assert all(0 <= each.idle_ms < HOUR_MS for each in names.consumer_names(TOPIC, GROUP))


def test_a_name_goes_once_it_is_idle_and_has_nothing_pending(
    transport: Transport, names: NamesConsumers, publish: Publish, clock: ManualClock
) -> None:
    publish(b"x", b"y")
    read(transport, "here", settle=True)
    read(transport, "gone", settle=False)
    # Neither has been idle for an hour
    assert names.forget_consumers(TOPIC, GROUP, idle_ms=HOUR_MS) == []
    # However idle: what is pending keeps its name, and is delivered again
    assert names.forget_consumers(TOPIC, GROUP, idle_ms=0) == ["here"]
    assert [each.name for each in names.consumer_names(TOPIC, GROUP)] == ["gone"]
    clock.advance(LEASE_MS / 1000 + 1)
    read(transport, "heir", settle=True)
    assert names.forget_consumers(TOPIC, GROUP, idle_ms=0) == ["gone", "heir"]
    assert names.consumer_names(TOPIC, GROUP) == []
    assert transport.admin.lag(TOPIC, GROUP).unsettled == 0


def test_pending_on_one_stream_keeps_the_name_on_all(
    transport: Transport, names: NamesConsumers, server: redis.Redis
) -> None:
    transport.publish(TOPIC, [Outgoing("l", b"l", Priority.LOW)])
    read(transport, "c", settle=False)
    assert names.forget_consumers(TOPIC, GROUP, idle_ms=0) == []
    assert server.xpending(f"hbus:{{{TOPIC}}}:low", GROUP)["pending"] == 1


def test_a_consumer_whose_name_was_forgotten_reads_on(
    transport: Transport, names: NamesConsumers, publish: Publish
) -> None:
    # Not by a read that finds nothing: before 7.2 it leaves no name
    publish(b"w")
    receiver = transport.receiver(TOPIC, GROUP, consumer="alive", lease_ms=LEASE_MS)
    receiver.settle([Settlement(each.receipt) for each in receiver.receive(1, 0)])
    assert names.forget_consumers(TOPIC, GROUP, idle_ms=0) == ["alive"]
    publish(b"x")
    (delivery,) = receiver.receive(1, 0)
    assert receiver.settle([Settlement(delivery.receipt, Verdict.RETRY)]) == [True]
    assert [each.name for each in names.consumer_names(TOPIC, GROUP)] == ["alive"]
    receiver.close()


def test_names_of_all_partitions_are_one_list(transport: Transport, names: NamesConsumers) -> None:
    transport.set_partitions(TOPIC, 3)  # type: ignore[attr-defined]
    for partition in (0, 2):
        transport.publish(TOPIC, [Outgoing(f"m{partition}", b"x", partition=partition)])
        receiver = transport.receiver(TOPIC, GROUP, consumer="c", lease_ms=LEASE_MS, partition=partition)
        receiver.settle([Settlement(each.receipt) for each in receiver.receive(1, 0)])
        receiver.close()
    assert [each.name for each in names.consumer_names(TOPIC, GROUP)] == ["c"]
    assert names.forget_consumers(TOPIC, GROUP, idle_ms=0) == ["c"]


def test_a_group_that_is_not_there_is_told(names: NamesConsumers) -> None:
    with pytest.raises(GroupLost):
        names.consumer_names(TOPIC, "nobody")
