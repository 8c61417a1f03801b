"""A group that vanished while its partitions were owned, and was made anew beneath its owner."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from engine.bus.partitions import Partitioned
from engine.bus.transport import Outgoing, Transport
from engine.bus.transports.redis_stream.receiver import PartitionReader
from engine.core.clock import ManualClock

ORDERED = "booking.changed"


@pytest.mark.parametrize("lost", ["*group:g:state", "*group:g:*"])
def test_an_owner_claims_anew_what_the_new_group_does_not_know(
    transport: Transport, server: redis.Redis, lost: str
) -> None:
    # Given a consumer that owns both partitions of a group
    assert isinstance(transport, Partitioned)
    transport.admin.create_topic(ORDERED)
    transport.set_partitions(ORDERED, 2)
    transport.admin.create_group(ORDERED, "g")
    receiver = transport.partitioned_receiver(ORDERED, "g", consumer="c", lease_ms=30_000, partitions=2, seat_ms=10_000)
    before = receiver.turn(sit=True).owned
    assert set(before) == {0, 1}

    # When the group is lost, with or without its owners, made anew, and read before the owner takes its next turn
    for key in server.keys(f"hbus:{{{ORDERED}}}{lost}"):
        server.delete(key)
    transport.admin.create_group(ORDERED, "g", "beginning")
    assert receiver.receive(10, 0) == []
    transport.publish(ORDERED, [Outgoing("a", b"1", partition=0), Outgoing("b", b"2", partition=1)])

    # Then its next turn brings epochs that the new group knows, and reading goes on
    after = receiver.turn(sit=True).owned
    assert {number: epoch > before[number] for number, epoch in after.items()} == {0: True, 1: True}
    assert {delivery.body for delivery in receiver.receive(10, 0)} == {b"1", b"2"}
    receiver.close()


def test_a_partition_that_was_given_anew_in_the_middle_of_a_read_is_read(
    transport: Transport, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an owner that was stopped for so long that another had its partitions, and gave them up again
    assert isinstance(transport, Partitioned)
    transport.admin.create_topic(ORDERED)
    transport.set_partitions(ORDERED, 2)
    transport.admin.create_group(ORDERED, "g")
    mine, other = (
        transport.partitioned_receiver(ORDERED, "g", consumer=name, lease_ms=30_000, partitions=2, seat_ms=10_000)
        for name in ("c", "d")
    )
    before = mine.turn(sit=True).owned
    clock.advance(11)
    assert len(other.turn(sit=True).owned) == 2
    other.turn(sit=False)
    other.give_up([0, 1])
    transport.publish(ORDERED, [Outgoing("a", b"1", partition=0), Outgoing("b", b"2", partition=1)])

    # When its turn brings new epochs while a read of it goes over the ends it had before
    lease = PartitionReader.lease
    after: list[dict[int, int]] = []

    def with_a_turn(reader: PartitionReader, *args: Any) -> Any:
        if not after:
            after.append({})
            after[0] |= mine.turn(sit=True).owned
        return lease(reader, *args)

    monkeypatch.setattr(PartitionReader, "lease", with_a_turn)
    assert mine.receive(10, 0) == []
    assert {number: epoch > before[number] for number, epoch in after[0].items()} == {0: True, 1: True}

    # Then that both were refused holds for those ends alone
    assert {delivery.body for delivery in mine.receive(10, 0)} == {b"1", b"2"}
    mine.close()
    other.close()
