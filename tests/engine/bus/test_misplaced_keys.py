"""Messages that a foreign writer has put into another partition than that of their key."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance.ordering import Journal
from engine.bus.message import Message, encode
from engine.bus.partitions import partition_of
from engine.bus.policy import RetryPolicy
from engine.bus.transport import Outgoing
from engine.core.clock import ManualClock
from tests.engine.bus.kit import GROUP, TOPIC, Bus, make_bus, running

PARTITIONS = 4
KEY = "room-1"
OWN = partition_of(KEY, "", PARTITIONS)
OTHER = (OWN + 1) % PARTITIONS
ONCE = RetryPolicy(1, (1.0,))


@pytest.fixture(params=["memory", "redis_stream"])
def bus(request: pytest.FixtureRequest, clock: ManualClock, redis_url: str, prefix: str) -> Iterator[Bus]:
    config = BusConfig(type=request.param, url=redis_url, prefix=prefix)
    made = make_bus(config, clock, ordering="key", partitions=PARTITIONS, priorities=False)
    yield made
    made.transport.close()


def put(bus: Bus, *numbers: int, partition: int) -> None:
    messages = [
        Message(id=str(n), source="/t", type="t", partitionkey=KEY, data=msgspec.Raw(b'{"n":%d}' % n)) for n in numbers
    ]
    bus.transport.publish(TOPIC, [Outgoing(each.id, encode(each), partition=partition) for each in messages])


def test_what_lies_in_another_partition_than_its_parked_key_is_handled(bus: Bus) -> None:
    journal = Journal(fail={0})
    with running(bus.consumer(journal, ordering="key", on_failed_head="park", retry=ONCE)):
        put(bus, 0, 1, partition=OWN)
        bus.facts.wait_for("parked", 2)
        put(bus, 2, 3, 4, partition=OTHER)
        bus.facts.wait_for("settled", 3)
        # Not taken for one of the parked key, put back and handed out again and again.
        assert bus.transport.admin.counts(TOPIC, GROUP).get("released", 0) == 0
        journal.fail.clear()
        assert bus.transport.unpark(TOPIC, GROUP, KEY, "retry") is not None
        bus.facts.wait_for("settled", 5)
    assert journal.by_key == {KEY: [2, 3, 4, 0, 1]}
    assert bus.unsettled() == 0
