"""Two copies of a message are about, under one id: it is handled once, and no consumer stalls on it.

nsqd writes a message to the topic's file, and from there to the channel's. How far it has read it notes with a
sync only: killed before that, it reads on from further back, and puts a second copy into the channel behind the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.bus.transport import Receiver
from engine.bus.transports.nsq import receiver as receiver_module
from engine.bus.transports.nsq.connection import NsqdConnection
from hbus_console.supervisor.standalone_nsqd import StandaloneNsqd
from tests.engine.bus.transports.nsq.conftest import GROUP, TOPIC, Bench, eventually, settle, take
from tests.engine.bus.transports.nsq.raw import channel
from tests.nsq import needs_nsqd

#: nsqd notes where it is after so many reads and writes of a file, and at no other time.
SYNC_EVERY = 10
DOUBLED = 4
LEASE_MS = 10_000


@pytest.fixture
def own_nsqd(tmp_path: Path) -> Iterator[StandaloneNsqd]:
    needs_nsqd()
    made = StandaloneNsqd(tmp_path / "doubled", options=(f"-sync-every={SYNC_EVERY}", "-sync-timeout=1h")).start()
    yield made
    made.kill()


@pytest.fixture
def doubled(own_bench: Bench, own_nsqd: StandaloneNsqd) -> Bench:
    """An nsqd that was killed and has the last messages twice now."""
    bench = own_bench

    def put() -> int:
        """How many the topic has put into the channel since nsqd started."""
        return int(channel(own_nsqd.url, bench.nsq_topic, GROUP).get("message_count", 0))

    # Written and read: both files are noted, so that they are found again
    bench.publish(*[b"before%d" % index for index in range(SYNC_EVERY // 2)])
    receiver = bench.receiver("before", LEASE_MS)
    settle(receiver, take(receiver, SYNC_EVERY // 2))
    eventually(lambda: bench.admin.lag(TOPIC, GROUP).unsettled == 0)
    receiver.close()
    bench.publish(*_bodies())
    eventually(lambda: put() == SYNC_EVERY // 2 + DOUBLED)
    own_nsqd.kill()
    own_nsqd.start()
    eventually(lambda: put() == DOUBLED)
    return bench


@pytest.mark.parametrize("limit", [1, DOUBLED, 2 * DOUBLED])
def test_one_consumer_has_each_once(doubled: Bench, limit: int) -> None:
    receiver = doubled.receiver("one", LEASE_MS)
    assert _all_that_comes(doubled, receiver, limit) == Counter(_bodies())

    # What is finished twice counts as in flight with nsqd for good
    doubled.publish(b"after")
    assert [each.body for each in take(receiver, 1)] == [b"after"]


def test_another_consumer_has_none_of_what_the_first_holds(doubled: Bench) -> None:
    one, two = doubled.receiver("one", LEASE_MS), doubled.receiver("two", LEASE_MS)
    held = take(one, DOUBLED)
    assert two.receive(DOUBLED, 1) == []
    assert settle(one, held) == [True] * DOUBLED
    assert two.receive(DOUBLED, 1) == []
    eventually(lambda: doubled.admin.lag(TOPIC, GROUP).unsettled == 0)

    one.close()
    doubled.publish(b"after")
    assert [each.body for each in take(two, 1)] == [b"after"]


def test_another_consumer_has_none_of_what_the_first_has_settled(doubled: Bench) -> None:
    one, two = doubled.receiver("one", LEASE_MS), doubled.receiver("two", LEASE_MS)
    assert settle(one, take(one, DOUBLED)) == [True] * DOUBLED
    one.close()

    assert _all_that_comes(doubled, two, DOUBLED) == Counter()
    doubled.publish(b"after")
    assert [each.body for each in take(two, 1)] == [b"after"]


def test_what_waits_unread_with_one_consumer_is_not_handed_out_when_another_has_settled_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection broke, and nsqd sent it to another once it had waited for as long as the lease."""
    # The nsqd of the tests may have been started this very second.
    monkeypatch.setattr(NsqdConnection, "may_double", lambda *_: False)
    one, two = bench.receiver("one"), bench.receiver("two")
    assert one.receive(40, 0) == []
    bench.publish(*_bodies())
    inflow = one._inflow  # type: ignore[attr-defined]
    eventually(lambda: len(inflow) == DOUBLED)
    (link,) = inflow._links.values()
    bench.transport._loop.call(link.connection.shut)
    assert settle(two, take(two, DOUBLED)) == [True] * DOUBLED

    assert one.receive(40, 0.5) == []
    assert bench.admin.lag(TOPIC, GROUP).unsettled == 0


def test_only_the_latest_are_known_that_may_come_twice(doubled: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver_module, "TWICE_MOST", 2)
    receiver = doubled.receiver("one", LEASE_MS)
    held = take(receiver, DOUBLED)
    twice = doubled.transport._topic(TOPIC).group(GROUP).twice
    for each in held:
        settle(receiver, [each])
    assert doubled.transport._side_store.command("ZRANGE", twice, 0, -1) == [
        each.position.encode() for each in held[2:]
    ]
    assert 0 < doubled.transport._side_store.command("PTTL", twice) <= 86_400_000


def test_what_its_holder_settles_before_it_is_laid_beside_is_not_laid_there(bench: Bench) -> None:
    """Between the answer that another holds it and the call that keeps it for when that one fails."""
    bench.publish(b"held")
    receiver = bench.receiver()
    (held,) = take(receiver, 1)
    names = bench.transport._topic(TOPIC).group(GROUP)
    assert settle(receiver, [held]) == [True]

    assert bench.transport._side_store.run("park", names.park, (held.position, "", b"held", "")) == 0
    assert receiver.receive(1, 0) == []


def _bodies() -> list[bytes]:
    return [b"m%d" % index for index in range(DOUBLED)]


def _all_that_comes(bench: Bench, receiver: Receiver, limit: int) -> Counter[bytes]:
    """Handle what comes until nothing is left."""
    found: Counter[bytes] = Counter()

    def drained() -> bool:
        batch = receiver.receive(limit, 0.2)
        found.update(each.body for each in batch)
        assert settle(receiver, batch) == [True] * len(batch)
        return not batch and bool(bench.admin.lag(TOPIC, GROUP).unsettled == 0)

    eventually(drained)
    return found
