"""What an ordered read of Redis Streams gives first, when more is due than it looks at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from engine.bus.partitions import Partitioned, PartitionedReceiver
from engine.bus.transport import Outgoing, Settlement, Transport, Verdict
from engine.bus.transports.redis_stream.receiver import PartitionReader
from engine.bus.transports.redis_stream.topic import TopicKeys
from engine.core.clock import ManualClock
from engine.core.store.link import Link
from tests.engine.bus.transports.conftest import GROUP, TOPIC, Publish

READ = 100
MANY = 12 * READ


@pytest.fixture
def owner(transport: Transport) -> Iterator[PartitionedReceiver]:
    assert isinstance(transport, Partitioned)
    made = transport.partitioned_receiver(TOPIC, GROUP, consumer="c1", lease_ms=60_000, partitions=1, seat_ms=3_600_000)
    made.turn(sit=True)
    yield made
    made.close()


def numbers(owner: PartitionedReceiver, limit: int) -> list[int]:
    return [int(each.body) for each in owner.receive(limit, 1)]


def test_a_read_knows_the_parked_keys_of_its_own_moment(
    transport: Transport, owner: PartitionedReceiver, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read of a key was leased behind what is set aside, though somebody decides a moment later."""
    assert isinstance(transport, Partitioned)
    split = transport
    publish(b"0", b"1")
    head, next_ = owner.receive(10, 0)
    parking = [
        Settlement(head.receipt, Verdict.PARK, dead=b"{}", key="a"),
        Settlement(next_.receipt, Verdict.PARK, key="a"),
    ]
    assert owner.settle(parking) == [True, True]
    owner.turn(sit=False)
    owner.give_up([0])
    publish(b"2")
    lease = PartitionReader.lease

    def unparked_behind(reader: PartitionReader, link: Link, limit: int, *known: int) -> Any:
        reply = lease(reader, link, limit, *known)
        split.unpark(TOPIC, GROUP, "a", "retry")
        return reply

    monkeypatch.setattr(PartitionReader, "lease", unparked_behind)
    two = split.partitioned_receiver(TOPIC, GROUP, consumer="c2", lease_ms=60_000, partitions=1, seat_ms=3_600_000)
    two.turn(sit=True)
    (late,) = two.receive(10, 0)
    assert two.is_parked(0, "a")
    assert two.settle([Settlement(late.receipt, Verdict.PARK, key="a")]) == [False]
    assert numbers(two, 10) == [0, 1, 2]
    assert not two.is_parked(0, "a")
    two.close()


def put_back(transport: Transport, owner: PartitionedReceiver) -> None:
    """Messages 0 to ``MANY`` lie released."""
    transport.publish(TOPIC, [Outgoing(str(n), b"%d" % n) for n in range(MANY)])
    taken = [each for _ in range(2) for each in owner.receive(1_000, 0)]
    assert len(taken) == MANY
    assert all(owner.settle([Settlement(each.receipt, Verdict.RELEASE) for each in taken]))


def test_nothing_new_comes_before_what_is_due_though_all_that_was_looked_at_is_gone(
    transport: Transport, owner: PartitionedReceiver, publish: Publish, server: redis.Redis
) -> None:
    put_back(transport, owner)
    publish(b"%d" % MANY)
    stream = TopicKeys("hbus", TOPIC).streams[1]
    gone = [entry_id for entry_id, _ in server.xrange(stream, count=3 * READ)]
    server.xdel(stream, *gone)
    found: list[int] = []
    while len(found) < MANY + 1 - 3 * READ:
        found += (read := numbers(owner, READ))
        assert read
    assert found == list(range(3 * READ, MANY + 1))
    assert transport.admin.counts(TOPIC, GROUP)["vanished"] == 3 * READ


def test_a_lease_that_ran_out_waits_for_what_was_released_before_it(
    transport: Transport, owner: PartitionedReceiver, clock: ManualClock
) -> None:
    """The last of the messages is due by its lease alone, and many before it were put back meanwhile."""
    transport.publish(TOPIC, [Outgoing(str(n), b"%d" % n) for n in range(MANY)])
    taken = [each for _ in range(2) for each in owner.receive(1_000, 0)]
    assert all(owner.settle([Settlement(each.receipt, Verdict.RELEASE) for each in taken[: -READ // 2]]))
    clock.advance(61)
    owner.turn(sit=True)
    assert [n for _ in range(MANY // READ) for n in numbers(owner, READ)] == list(range(MANY))
