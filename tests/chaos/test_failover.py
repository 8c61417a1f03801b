"""A primary is killed under load: what was confirmed, delivered and lost, and for how long nothing moved.

The figures of ``docs/operations.md`` are what these tests print: ``make chaos PYTEST="-k failover"``.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from engine.bus.config import BusConfig
from engine.bus.transport import Outgoing, Settlement, Status, Transport
from engine.bus.transports.redis_stream import open_transport
from engine.core.errors import Unavailable
from engine.core.store import slot_of
from tests.form import size
from tests.store_servers import SLOTS, SentinelTrio, Server, StoreCluster, until

pytestmark = pytest.mark.chaos

GROUP = "billing"
PUBLISHERS = 4
BATCH = 25
#: How many confirmed messages of a topic come before the kill, and how many more after it.
BEFORE = AFTER = size(1_500, short=600)
#: A body of a replica's that has fallen behind, in bytes, and how many such are confirmed without it before the kill:
#: more than lies in the buffers between two servers, so that the primary takes some of it with it.
LARGE = 8_192
BEHIND = 4_000
PATIENCE_S = 240
TRIED_AGAIN_S = 0.02


class Load:
    """Publishers of one topic, who repeat what was not confirmed under its key, and one consumer."""

    def __init__(self, transport: Transport, topic: str, replicas: int, *, size: int = 0) -> None:
        self.topic = topic
        self._size = size
        self._transport = transport
        self._publishing = transport.confirming(replicas) if replicas else transport  # type: ignore[attr-defined]
        transport.admin.create_topic(topic)
        transport.admin.create_group(topic, GROUP)
        self.published = 0
        self.confirmed: dict[str, float] = {}
        self.unknown: set[str] = set()
        self.delivered: Counter[str] = Counter()
        self.moves: list[float] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._drained = threading.Event()
        publishers = [threading.Thread(target=self._publish, args=(number,)) for number in range(PUBLISHERS)]
        self._publishers = publishers
        self._consumer = threading.Thread(target=self._consume)

    def start(self) -> None:
        for thread in (*self._publishers, self._consumer):
            thread.start()

    def finish(self) -> None:
        """End the publishers, and the consumer once it has all there is."""
        self._stop.set()
        for thread in self._publishers:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        until("all is settled", self._nothing_left, PATIENCE_S)
        self._drained.set()
        self._consumer.join(PATIENCE_S)
        assert not self._consumer.is_alive()

    def lost(self) -> set[str]:
        """The confirmed messages that the topic does not hold."""
        kept: set[str] = set()
        after = ""
        while True:
            page = self._transport.admin.browse(self.topic, after=after, limit=5_000)
            kept.update(_name(entry.body) for entry in page.entries)
            if not page.next_position:
                return self.confirmed.keys() - kept
            after = page.next_position

    def report(self, since: float) -> str:
        confirmed = [since, *sorted(at for at in self.confirmed.values() if at > since)]
        delivered = [since, *(at for at in self.moves if at > since)]
        lost = self.lost()
        return (
            f"published {self.published:,}, confirmed {len(self.confirmed):,}, unknown at first {len(self.unknown):,}, "
            f"delivered {len(self.delivered):,} ({(self.delivered - Counter(self.delivered.keys())).total():,} again), "
            f"LOST {len(lost):,} of the confirmed ({len(lost - self.delivered.keys()):,} of them delivered to nobody), "
            f"nothing confirmed for {_longest(confirmed):.1f} s, nothing delivered for {_longest(delivered):.1f} s"
        )

    def _publish(self, publisher: int) -> None:
        number = 0
        while not self._stop.is_set():
            waiting = [_keyed(f"{self.topic}-{publisher}-{number + index}", self._size) for index in range(BATCH)]
            number += BATCH
            with self._lock:
                self.published += BATCH
            while waiting and not self._drained.is_set():
                outcomes = self._publishing.publish(self.topic, waiting)
                now = time.monotonic()
                with self._lock:
                    for message, outcome in zip(waiting, outcomes, strict=True):
                        if outcome.status in (Status.OK, Status.DUPLICATE):
                            self.confirmed[message.message_id] = now
                        elif outcome.status is Status.UNKNOWN:
                            self.unknown.add(message.message_id)
                waiting = [message for message in waiting if message.message_id not in self.confirmed]
                if waiting:
                    self._stop.wait(TRIED_AGAIN_S)

    def _consume(self) -> None:
        receiver = self._transport.receiver(self.topic, GROUP, consumer="c", lease_ms=1_000)
        while not self._drained.is_set():
            try:
                batch = receiver.receive(500, 0.2)
                self.delivered.update(_name(delivery.body) for delivery in batch)
                if batch:
                    self.moves.append(time.monotonic())
                receiver.settle([Settlement(delivery.receipt) for delivery in batch])
            except Unavailable:
                self._drained.wait(TRIED_AGAIN_S)
        receiver.close()

    def _nothing_left(self) -> bool:
        try:
            return self._transport.admin.lag(self.topic, GROUP).unsettled == 0
        except Unavailable:
            return False


def _keyed(name: str, size: int) -> Outgoing:
    return Outgoing(
        name, name.encode().ljust(size), idempotency_key=name, idempotency_digest="d", idempotency_window_ms=600_000
    )


def _name(body: bytes) -> str:
    return body.rstrip().decode()


def _longest(moments: Sequence[float]) -> float:
    return max((later - earlier for earlier, later in pairwise(moments)), default=0.0)


def _kill_under_load(
    loads: Sequence[Load], kill: Callable[[], Server], primary: Callable[[], Server], name: str
) -> float:
    """Load, kill, let another be chosen, start the killed one again, load. Prints; returns when it was."""
    for load in loads:
        load.start()
    try:
        until("there is load", lambda: all(len(load.confirmed) >= BEFORE for load in loads), PATIENCE_S)
        begun = time.monotonic()
        killed = kill()
        killed_at = time.monotonic()
        at_kill = [len(load.confirmed) for load in loads]
        until("another is primary", lambda: primary() is not killed, PATIENCE_S)
        chosen_s = time.monotonic() - killed_at
        killed.start()
        until(
            "publishing goes on",
            lambda: all(len(load.confirmed) >= many + AFTER for load, many in zip(loads, at_kill, strict=True)),
            PATIENCE_S,
        )
    finally:
        for load in loads:
            load.finish()
    for load in loads:
        print(f"\n{name}, {load.topic}: another primary after {chosen_s:.1f} s; {load.report(begun)}")
    return killed_at


def _freeze_under_load(load: Load, frozen: Server, replaced: Callable[[], bool], name: str) -> None:
    """Load, stop the primary's process, let another be chosen, let it run on, load until it knows. Prints."""
    load.start()
    try:
        until("there is load", lambda: len(load.confirmed) >= BEFORE, PATIENCE_S)
        begun = time.monotonic()
        frozen.freeze()
        until("another is primary", replaced, PATIENCE_S)
        thawed_at = time.monotonic()
        frozen.thaw()
        # It takes itself for the primary for as long as nobody tells it otherwise.
        until("it follows the other", frozen.follows, PATIENCE_S)
        told_at, many = time.monotonic(), len(load.confirmed)
        until("publishing goes on", lambda: len(load.confirmed) >= many + AFTER, PATIENCE_S)
    finally:
        frozen.thaw()
        load.finish()
    print(
        f"\n{name}: another primary after {thawed_at - begun:.1f} s, the frozen one knew it "
        f"{told_at - thawed_at:.1f} s after its thaw; {load.report(begun)}"
    )


def test_a_primary_that_was_frozen_and_replaced(own_trio: SentinelTrio) -> None:
    transport = open_transport(BusConfig(url=own_trio.url))
    load = Load(transport, "booking.created", 0)
    frozen, *others = own_trio.servers

    _freeze_under_load(load, frozen, lambda: any(each.is_primary for each in others), "Sentinel, frozen")

    # Then it confirms nothing after its thaw; as with a killed one, what its replicas did not have yet may be lost
    assert len(load.lost()) < BATCH * PUBLISHERS
    transport.close()


def test_a_primary_of_a_cluster_that_was_frozen_and_replaced(own_cluster: StoreCluster) -> None:
    transport = open_transport(BusConfig(url=own_cluster.url))
    load = Load(transport, one_for_each_third()[0], 0)
    frozen, successor = own_cluster.servers[0], own_cluster.servers[3]

    _freeze_under_load(load, frozen, lambda: successor.is_primary, "Cluster, frozen")

    assert len(load.lost()) < BATCH * PUBLISHERS
    transport.close()


def test_a_primary_that_sentinels_replace(own_trio: SentinelTrio) -> None:
    transport = open_transport(BusConfig(url=own_trio.url))
    load = Load(transport, "booking.created", 0)

    _kill_under_load([load], own_trio.kill_primary, lambda: own_trio.primary, "Sentinel")

    # Then all goes on at the new primary; what the replicas did not have yet may be lost, and on one machine that is
    # next to nothing: what a killed process has sent arrives.
    assert len(load.lost()) < BATCH * PUBLISHERS
    transport.close()


@pytest.mark.parametrize("replicas", [0, 1])
def test_replicas_that_had_fallen_behind(own_trio: SentinelTrio, replicas: int) -> None:
    # Given replicas that stand still while the primary goes on
    transport = open_transport(BusConfig(url=own_trio.url))
    load = Load(transport, "booking.created", replicas, size=LARGE)
    following = own_trio.servers[1:]

    def kill_behind() -> Server:
        for server in following:
            server.freeze()
        behind = len(load.confirmed) + BEHIND
        until("they are behind", lambda: len(load.confirmed) >= behind or bool(load.unknown))
        killed = own_trio.kill_primary()
        for server in following:
            server.thaw()
        return killed

    _kill_under_load([load], kill_behind, lambda: own_trio.primary, f"Sentinel, behind, {replicas} replicas waited for")

    # Then what was confirmed without them is lost, and nothing is confirmed without them where they are waited for
    assert (load.lost() == set()) is bool(replicas)
    transport.close()


def test_a_primary_of_a_cluster(own_cluster: StoreCluster) -> None:
    # Given a topic on each of the three primaries
    transport = open_transport(BusConfig(url=own_cluster.url))
    topics = one_for_each_third()
    loads = [Load(transport, topic, 1) for topic in topics]
    tag = f"{{{topics[0]}}}"

    killed_at = _kill_under_load(
        loads,
        lambda: own_cluster.kill_primary_of(tag),
        lambda: own_cluster.primary_of(tag),
        "Cluster, 1 replica waited for",
    )

    # Then the topics of the other primaries went on meanwhile, and nothing is lost
    for load in loads[1:]:
        assert any(killed_at < at < killed_at + 1 for at in load.confirmed.values())
    for load in loads:
        assert load.lost() == set()
    transport.close()


def one_for_each_third() -> list[str]:
    """Names of topics whose slots lie in the first, second and last third."""
    found: dict[int, str] = {}
    for number in range(1_000):
        name = f"booking.{number}"
        found.setdefault(min(2, slot_of(name) // (SLOTS // 3)), name)
    return [found[third] for third in range(3)]
