"""What a foreign writer puts into the high and low streams of an ordered topic, in any of its partitions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from engine.bus.optional import TellsStanding, WhereItIs
from engine.bus.partitions import PartitionedReceiver
from engine.bus.transport import Priority, Settlement, Transport, Verdict
from engine.bus.transports.redis_stream.topic import MARKS, PRIORITIES, TopicKeys, suffix_of
from engine.bus.transports.redis_stream.transport import RedisStreamTransport
from tests.engine.bus.transports.conftest import GROUP, TOPIC

PARTITIONS = 4
RECORD = b'{"cause":"poison"}'


@pytest.fixture
def split(transport: Transport) -> RedisStreamTransport:
    assert isinstance(transport, RedisStreamTransport)
    transport.set_partitions(TOPIC, PARTITIONS)
    return transport


@pytest.fixture
def owner(split: RedisStreamTransport) -> Iterator[PartitionedReceiver]:
    made = split.partitioned_receiver(
        TOPIC, GROUP, consumer="c1", lease_ms=30_000, partitions=PARTITIONS, seat_ms=3_600_000
    )
    made.turn(sit=True)
    yield made
    made.close()


def write(server: redis.Redis, *bodies: bytes, partition: int, priority: Priority, at_ms: int = 1) -> list[str]:
    """Past the producer, one a millisecond; the positions."""
    rank = PRIORITIES.index(priority)
    stream = TopicKeys("hbus", TOPIC, partition).streams[rank]
    end = MARKS[rank] + suffix_of(partition)
    return [server.xadd(stream, {"event": body}, id=f"{at_ms + n}-0").decode() + end for n, body in enumerate(bodies)]


@pytest.mark.parametrize("partition", [0, 3], ids=["first partition", "another"])
@pytest.mark.parametrize("priority", [Priority.HIGH, Priority.LOW])
def test_it_is_delivered_at_once_and_its_position_leads_back_to_it(
    split: RedisStreamTransport,
    owner: PartitionedReceiver,
    server: redis.Redis,
    priority: Priority,
    partition: int,
) -> None:
    positions = write(server, b"m0", b"m1", partition=partition, priority=priority)
    taken = owner.receive(10, 0)
    assert [(each.position, each.priority, each.partition) for each in taken] == [
        (position, priority, partition) for position in positions
    ]
    admin = split.admin
    for each in taken:
        stored = admin.read(TOPIC, each.position)
        assert stored is not None
        assert (stored.body, stored.priority) == (each.body, priority)
    # A page that ends at it goes on behind it, both ways.
    page = admin.browse(TOPIC, limit=1)
    assert [stored.position for stored in admin.browse(TOPIC, after=page.next_position).entries] == positions[1:]
    page = admin.browse(TOPIC, limit=1, newest_first=True)
    back = admin.browse(TOPIC, after=page.next_position, newest_first=True)
    assert [stored.position for stored in back.entries] == positions[:1]
    # Put back, it comes as it came.
    assert all(owner.settle([Settlement(each.receipt, Verdict.RELEASE) for each in taken]))
    again = owner.receive(10, 0)
    assert [(each.position, each.attempt) for each in again] == [(position, 1) for position in positions]
    assert owner.settle([Settlement(again[0].receipt), Settlement(again[1].receipt, Verdict.DEAD, dead=RECORD)])
    assert [letter.position for letter in admin.dead(TOPIC, GROUP)] == positions[1:]
    assert isinstance(admin, TellsStanding)
    assert admin.standings(TOPIC, GROUP, positions) == [WhereItIs.DONE, WhereItIs.DONE]
    admin.seek(TOPIC, GROUP, positions[0])
    assert admin.lag(TOPIC, GROUP).waiting == 1


@pytest.mark.parametrize("partition", [0, 3], ids=["first partition", "another"])
@pytest.mark.parametrize("decision", ["retry", "skip", "dead"])
def test_a_key_in_all_three_streams_is_parked_and_comes_again_whole(
    split: RedisStreamTransport,
    owner: PartitionedReceiver,
    server: redis.Redis,
    decision: str,
    partition: int,
) -> None:
    # An id may be there in several streams.
    low = write(server, b"low 0", b"low 1", partition=partition, priority=Priority.LOW)
    normal = write(server, b"normal 0", b"normal 1", partition=partition, priority=Priority.NORMAL, at_ms=2)
    high = write(server, b"high 0", b"high 1", partition=partition, priority=Priority.HIGH, at_ms=3)
    taken = owner.receive(10, 0)
    assert [each.position for each in taken] == high + normal + low
    # The third, of the normal stream, fails; of the low stream, which is read after it, one was published before.
    assert owner.settle([Settlement(each.receipt) for each in taken[:2]])
    _, _, head, *others = taken
    asked = [Settlement(head.receipt, Verdict.PARK, dead=RECORD, key="a")]
    asked += [Settlement(each.receipt, Verdict.PARK, key="a") for each in others]
    assert owner.settle(asked) == [True] * 4
    # The answer may have been lost: what is set aside is no less so.
    assert owner.settle(asked[1:]) == [True] * 3
    (parked,) = split.parked(TOPIC, GROUP)
    assert (parked.position, parked.partition, parked.messages) == (head.position, partition, 4)
    aside = split.set_aside(TOPIC, GROUP, "a")
    assert [stored.body for stored in aside] == [b"normal 0", b"low 0", b"low 1", b"normal 1"]
    decided = split.unpark(TOPIC, GROUP, "a", decision)
    assert decided is not None
    assert decided.head == aside[0]
    again = owner.receive(10, 0)
    expected = [b"normal 0", b"normal 1", b"low 0", b"low 1"][decision != "retry" :]
    assert [each.body for each in again] == expected
    assert decided.messages == len(expected)
    assert [letter.body for letter in split.admin.dead(TOPIC, GROUP)] == [b"normal 0"] * (decision == "dead")
    assert all(owner.settle([Settlement(each.receipt) for each in again]))
    assert split.admin.lag(TOPIC, GROUP).unsettled == 0
    assert not [key for key in server.keys("*") if key.endswith((b":aside", b":heads", b":parked", b":leases"))]


def test_a_key_that_an_earlier_release_parked_has_the_first_for_its_head(
    split: RedisStreamTransport, owner: PartitionedReceiver, server: redis.Redis
) -> None:
    """It noted no head."""
    write(server, b"m0", b"m1", partition=2, priority=Priority.NORMAL)
    head, next_ = owner.receive(10, 0)
    parking = [
        Settlement(head.receipt, Verdict.PARK, dead=RECORD, key="a"),
        Settlement(next_.receipt, Verdict.PARK, key="a"),
    ]
    assert owner.settle(parking) == [True, True]
    assert server.delete(TopicKeys("hbus", TOPIC, 2).group(GROUP).heads) == 1
    (parked,) = split.parked(TOPIC, GROUP)
    assert parked.position == head.position
    assert split.set_aside(TOPIC, GROUP, "a")[0].position == head.position
    decided = split.unpark(TOPIC, GROUP, "a", "skip")
    assert decided is not None
    assert decided.head is not None
    assert decided.head.position == head.position
    assert [each.position for each in owner.receive(10, 0)] == [next_.position]
