"""ordering="key": one message of a key at a time, in order, by the owner of its partition."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from engine.bus.conformance.ordering import Journal
from engine.bus.consuming.lanes import LANE_AHEAD
from engine.bus.context import Context
from engine.bus.message import Message
from engine.bus.partitions import PartitionedReceiver
from engine.bus.policy import RetryPolicy
from engine.bus.transport import Delivery, Outgoing
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from tests.engine.bus.kit import GROUP, PATIENCE_S, TOPIC, Bus, Recorder, running, until

LEASE_S = 9.0


@pytest.fixture
def bus(any_bus: Bus) -> Bus:
    """Every promise here is kept by both transports."""
    return any_bus


def test_each_key_keeps_its_order_over_many_threads(any_bus: Bus) -> None:
    from engine.bus.options import PublishOptions
    from engine.bus.producer import BatchItem

    items = [BatchItem({"n": n}, PublishOptions(key=f"k{n % 7}")) for n in range(700)]
    any_bus.producer.publish_batch(TOPIC, items)
    journal = Journal()
    with running(any_bus.consumer(journal, ordering="key", concurrency=4)):
        any_bus.facts.wait_for("settled", 700)
    assert journal.by_key == {f"k{k}": list(range(k, 700, 7)) for k in range(7)}
    assert journal.together == []


def test_a_failed_head_blocks_its_key_and_nobody_else(bus: Bus, clock: ManualClock) -> None:
    for n, key in enumerate("aabab"):
        bus.publish({"n": n}, key=key)
    bus.publish({"n": 9})
    journal = Journal()
    journal.fail = {0}
    consumer = bus.consumer(journal, ordering="key", lease_s=LEASE_S)
    with running(consumer):
        (fact,) = bus.facts.wait_for("retried")
        bus.facts.wait_for("settled", 3)
        assert journal.by_key == {"b": [2, 4], "": [9]}
        assert consumer.status().queued == 3
        # Its backoff is longer than its lease, which is renewed meanwhile.
        while clock.now_ms() < fact.due_ms - 1_000:
            beats = bus.transport.calls("extend")
            clock.advance(1)
            if beats == 0:
                continue
        assert journal.by_key == {"b": [2, 4], "": [9]}
        journal.fail.clear()
        until(lambda: len(bus.facts.of("settled")) == 6, between=lambda: clock.advance(1))
    assert journal.by_key["a"] == [0, 1, 3]
    settled = {fact.message_id: fact.attempt for fact in bus.facts.of("settled")}
    assert sorted(settled.values()) == [1, 1, 1, 1, 1, 2]
    assert bus.facts.of("lease_lost") == []
    assert bus.unsettled() == 0


def test_what_was_read_late_keeps_its_place_though_the_store_does_not_say_whether_it_is_still_ours(
    bus: Bus, clock: ManualClock
) -> None:
    make = bus.transport.partitioned_receiver

    class Late:
        """The first answer comes after half the lease, the next message meanwhile, and then the store is away."""

        def __init__(self, inner: PartitionedReceiver) -> None:
            self._inner = inner
            self._was_late = False

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def receive(self, limit: int, wait_s: float) -> list[Delivery]:
            deliveries = self._inner.receive(limit, wait_s)
            if deliveries and not self._was_late:
                self._was_late = True
                bus.publish({"n": 1}, key="a")
                bus.transport.once["extend"] = Unavailable("away")
                clock.advance(LEASE_S / 2)
            return deliveries

    bus.transport.partitioned_receiver = lambda *a, **k: Late(make(*a, **k))  # type: ignore[method-assign]
    bus.publish({"n": 0}, key="a")
    journal = Journal()
    with running(bus.consumer(journal, ordering="key", lease_s=LEASE_S)):
        until(lambda: len(bus.facts.of("settled")) == 2, between=lambda: clock.advance(0.1))
    assert journal.by_key == {"a": [0, 1]}
    assert {fact.attempt for fact in bus.facts.of("settled")} == {1}


def test_a_lane_waits_for_the_store_and_goes_on_when_it_is_back(bus: Bus, clock: ManualClock) -> None:
    journal = Journal()
    with running(bus.consumer(journal, ordering="key", seat_s=60.0)):
        bus.publish({"n": 0}, key="a")
        bus.facts.wait_for("settled")
        bus.transport.failing.add("settle")
        for n in range(1, 3 * LANE_AHEAD):
            bus.publish({"n": n}, key="a")
        asked = bus.transport.calls("settle")
        until(lambda: len(journal.by_key["a"]) > LANE_AHEAD, between=lambda: clock.advance(0.1))
        until(lambda: bus.transport.calls("settle") > asked + 3, between=lambda: clock.advance(0.1))
        assert journal.by_key["a"] == list(range(LANE_AHEAD + 1))
        bus.transport.failing.clear()
        until(lambda: len(bus.facts.of("settled")) == 3 * LANE_AHEAD, between=lambda: clock.advance(0.1))
    assert journal.by_key["a"] == list(range(3 * LANE_AHEAD))


@pytest.mark.parametrize("failed", [1, 2])
def test_an_attempt_counts_though_the_lease_runs_out_before_the_next(bus: Bus, clock: ManualClock, failed: int) -> None:
    """As when the process is stopped between two attempts for longer than its lease."""
    bus.publish({"n": 0}, key="a")
    journal = Journal(fail={0})
    with running(bus.consumer(journal, ordering="key", lease_s=LEASE_S, seat_s=600.0, retry=RetryPolicy(3, (1.0,)))):
        until(lambda: len(bus.facts.of("retried")) == failed, between=lambda: clock.advance(0.1))
        bus.transport.failing |= {"extend", "receive"}
        clock.advance(LEASE_S)
        bus.facts.wait_for("lease_lost")
        bus.transport.failing.clear()
        until(lambda: bool(bus.facts.of("dead")), between=lambda: clock.advance(0.1))
    (dead,) = bus.facts.of("dead")
    assert dead.attempt == len(journal.calls) == 3


def test_a_head_that_dies_lets_its_key_go_on(bus: Bus, clock: ManualClock) -> None:
    for n in range(3):
        bus.publish({"n": n}, key="a")
    journal = Journal()
    journal.fail = {0}
    with running(bus.consumer(journal, ordering="key", retry=RetryPolicy(3, (1.0,)))):
        until(lambda: len(bus.facts.of("settled")) == 2, between=lambda: clock.advance(1))
    assert journal.by_key["a"] == [1, 2]
    from engine.bus import dead

    record = dead.decode(bus.transport.admin.dead(TOPIC, GROUP)[0].record)
    assert [attempt.number for attempt in record.history] == [1, 2, 3]
    assert len(bus.facts.of("retried")) == 2


def test_an_unreadable_message_blocks_no_key(bus: Bus) -> None:
    bus.transport.publish(TOPIC, [Outgoing("x", b"rubbish")])
    bus.publish({"n": 1}, key="a")
    journal = Journal()
    with running(bus.consumer(journal, ordering="key")):
        bus.facts.wait_for("dead")
        bus.facts.wait_for("settled")


def test_a_drain_keeps_the_order_for_the_next_owner(bus: Bus, clock: ManualClock) -> None:
    for n in range(20):
        bus.publish({"n": n}, key="a")
    journal = Journal()
    journal.hold[5] = threading.Event()
    first = bus.consumer(journal, ordering="key")
    with running(first):
        bus.facts.wait_for("settled", 5)
        until(lambda: first.status().queued == 14)
        stopper = threading.Thread(target=first.stop, args=(30.0,))
        stopper.start()
        bus.facts.wait_for("released", 14)
        journal.hold[5].set()
        stopper.join()
    with running(bus.consumer(journal, name="c2", ordering="key")):
        bus.facts.wait_for("settled", 20)
    assert journal.by_key["a"] == list(range(20))


def test_a_pause_keeps_the_order(bus: Bus) -> None:
    for n in range(20):
        bus.publish({"n": n}, key="a")
    journal = Journal()
    journal.hold[5] = threading.Event()
    consumer = bus.consumer(journal, ordering="key")
    with running(consumer):
        bus.facts.wait_for("settled", 5)
        until(lambda: consumer.status().queued == 14)
        consumer.pause()
        bus.facts.wait_for("released", 14)
        consumer.resume()
        until(lambda: consumer.status().queued == 14)
        journal.hold[5].set()
        bus.facts.wait_for("settled", 20)
    assert journal.by_key["a"] == list(range(20))
    assert journal.together == []


def test_an_attempt_that_failed_here_is_not_forgotten_by_a_drain(bus: Bus, clock: ManualClock) -> None:
    bus.publish({"n": 0}, key="a")
    journal = Journal()
    journal.fail = {0}
    first = bus.consumer(journal, ordering="key")
    with running(first):
        bus.facts.wait_for("retried")
        until(lambda: first.status().queued == 1)
        first.stop(30.0)
    journal.fail.clear()
    with running(bus.consumer(journal, name="c2", ordering="key")):
        (fact,) = bus.facts.wait_for("settled")
    assert fact.attempt == 2


def test_attempts_that_were_made_here_are_counted_when_this_process_dies(bus: Bus, clock: ManualClock) -> None:
    bus.publish({"n": 0}, key="a")
    bus.publish({"n": 1}, key="a")
    journal = Journal(fail={0})
    verbs = ("receive", "settle", "extend", "turn", "give_up")
    policy: dict[str, Any] = {"ordering": "key", "retry": RetryPolicy(3, (1.0,)), "lease_s": LEASE_S, "seat_s": 2.0}
    with running(bus.consumer(journal, **policy)):
        until(lambda: len(bus.facts.of("retried")) == 2, between=lambda: clock.advance(0.1))
        # As if it were killed: nothing that it says reaches the store any more.
        bus.transport.failing.update(verbs)
    bus.transport.failing.clear()
    with running(bus.consumer(journal, name="c2", **policy)):
        until(lambda: len(bus.facts.of("settled")) == 1, between=lambda: clock.advance(0.5))
    assert [message.json()["n"] for message in journal.calls] == [0, 0, 0, 1]
    (letter,) = bus.transport.admin.dead(TOPIC, GROUP)
    from engine.bus import dead

    assert [attempt.number for attempt in dead.decode(letter.record).history] == [1, 2, 3]


def test_an_attempt_is_not_made_before_the_store_has_counted_it(bus: Bus, clock: ManualClock) -> None:
    bus.publish({"n": 0}, key="a")
    journal = Journal(fail={0})
    with running(bus.consumer(journal, ordering="key", retry=RetryPolicy(3, (1.0,)), seat_s=60.0)):
        bus.facts.wait_for("retried")
        bus.transport.failing.add("settle")
        asked = bus.transport.calls("settle")
        until(lambda: bus.transport.calls("settle") > asked + 2, between=lambda: clock.advance(0.1))
        assert len(journal.calls) == 1
        bus.transport.failing.clear()
        until(lambda: len(bus.facts.of("dead")) == 1, between=lambda: clock.advance(0.1))
    assert len(journal.calls) == 3


def test_one_consumer_reads_and_the_other_takes_over_when_it_stops(bus: Bus, clock: ManualClock) -> None:
    journal, idle = Journal(), Journal()
    first = bus.consumer(journal, ordering="key", seat_s=LEASE_S)
    second = bus.consumer(idle, name="c2", ordering="key", seat_s=LEASE_S)
    with running(first):
        until(lambda: first.status().partitions == {0: 1})
        with running(second):
            bus.publish({"n": 0}, key="a")
            bus.facts.wait_for("settled")
            until(lambda: second.status().state == "waiting for ownership")
            assert second.status().partitions == {}
            assert first.stop(10.0).clean
            bus.publish({"n": 1}, key="a")
            # Given up, so no lease has to run out: only the next turn has to come.
            before = clock.monotonic()
            until(lambda: len(bus.facts.of("settled")) == 2, between=lambda: clock.advance(0.01))
            assert clock.monotonic() - before < LEASE_S
            assert second.status().partitions == {0: 2}
    assert (journal.by_key["a"], idle.by_key["a"]) == ([0], [1])


def vanish(bus: Bus, number: int) -> PartitionedReceiver:
    """An owner that was given ``number`` messages and says no word any more."""
    gone = bus.transport.ordered.partitioned_receiver(
        TOPIC, GROUP, consumer="c0", lease_ms=round(LEASE_S * 1000), partitions=1, seat_ms=round(LEASE_S * 500)
    )
    assert gone.turn(sit=True).owned == {0: 1}
    assert len(gone.receive(number, 1.0)) == number
    return gone


def test_after_an_owner_vanished_the_next_waits_for_its_leases_and_keeps_the_order(
    bus: Bus, clock: ManualClock
) -> None:
    for n in range(3):
        bus.publish({"n": n}, key="a")
    vanish(bus, 3).close()
    for n in range(3, 6):
        bus.publish({"n": n}, key="a")
    journal = Journal()
    second = bus.consumer(journal, name="c2", ordering="key", lease_s=LEASE_S, seat_s=LEASE_S / 2)
    with running(second):
        began = clock.monotonic()
        until(lambda: second.status().partitions == {0: 2}, between=lambda: clock.advance(0.05))
        assert journal.calls == []
        until(lambda: len(bus.facts.of("settled")) == 6, between=lambda: clock.advance(0.5))
        assert clock.monotonic() - began >= LEASE_S
    assert journal.by_key["a"] == list(range(6))


def test_a_lost_partition_is_read_no_more_and_its_handlers_are_told(bus: Bus, clock: ManualClock) -> None:
    contexts: list[Context] = []
    go_on = threading.Event()

    def hold(message: Message, context: Context) -> None:
        contexts.append(context)
        assert go_on.wait(PATIENCE_S)

    consumer = bus.consumer(hold, ordering="key", lease_s=LEASE_S, seat_s=LEASE_S)
    for n in range(4):
        bus.publish({"n": n}, key="a")
    with running(consumer):
        until(lambda: len(contexts) == 1 and consumer.status().queued >= 1)
        bus.transport.failing.add("turn")
        thief = bus.transport.ordered.partitioned_receiver(
            TOPIC, GROUP, consumer="thief", lease_ms=1_000, partitions=1, seat_ms=3_600_000
        )
        until(lambda: thief.turn(sit=True).owned == {0: 2}, between=lambda: clock.advance(0.5))
        bus.transport.failing.clear()
        until(lambda: contexts[0].lease_lost, between=lambda: clock.advance(0.5))
        # What is queued goes back first; then the consumer tells that it waits.
        until(
            lambda: consumer.status().queued == 0 and consumer.status().state == "waiting for ownership",
            between=lambda: clock.advance(0.5),
        )
        go_on.set()
        # What it did under the old epoch is refused: the thief will do it.
        bus.facts.wait_for("lease_lost")
    assert bus.facts.of("settled") == []
    assert len(contexts) == 1


def test_what_ran_out_here_alone_goes_back_before_what_waits_behind_it(bus: Bus, clock: ManualClock) -> None:
    make = bus.transport.partitioned_receiver
    blind = threading.Event()
    unheard: list[int] = []

    class Unheard:
        """While it is blind, its extensions reach the store, their answers are lost, and it reads nothing."""

        def __init__(self, inner: PartitionedReceiver) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def receive(self, limit: int, wait_s: float) -> list[Delivery]:
            if blind.wait(0.005):
                return []
            return self._inner.receive(limit, wait_s)

        def extend(self, receipts: Sequence[str]) -> list[bool]:
            answers = self._inner.extend(receipts)
            if blind.is_set():
                unheard.append(len(receipts))
                raise Unavailable("the connection broke")
            return answers

    bus.transport.partitioned_receiver = lambda *a, **k: Unheard(make(*a, **k))  # type: ignore[method-assign]
    journal = Journal()
    journal.hold[1] = threading.Event()
    consumer = bus.consumer(journal, ordering="key", lease_s=LEASE_S, seat_s=60.0, concurrency=1)
    with running(consumer):
        bus.publish({"n": 0}, key="a")
        bus.facts.wait_for("settled")
        for n, key in enumerate("abbb", start=1):
            bus.publish({"n": n}, key=key)
        # All four are here; of three that wait the held one may be one as long as no handler has it.
        until(lambda: (consumer.status().in_flight, consumer.status().queued) == (1, 3))
        blind.set()
        # By its own count the leases have run out; the store has renewed them.
        clock.advance(LEASE_S + 1)
        until(lambda: 4 in unheard, between=lambda: clock.advance(0.1))
        journal.hold[1].set()
        bus.facts.wait_for("lease_lost")
        blind.clear()
        until(lambda: len(bus.facts.of("settled")) == 5, between=lambda: clock.advance(0.5))
    assert journal.by_key == {"a": [0, 1], "b": [2, 3, 4]}
    assert bus.unsettled() == 0


def test_a_store_that_is_away_is_waited_for(bus: Bus, clock: ManualClock) -> None:
    consumer = bus.consumer(Recorder(), ordering="key", seat_s=LEASE_S)
    with running(consumer):
        until(lambda: consumer.status().state == "running")
        bus.transport.failing |= {"turn", "receive"}
        until(lambda: consumer.status().state == "store lost", between=lambda: clock.advance(1))
        bus.transport.failing.clear()
        until(lambda: consumer.status().state == "running", between=lambda: clock.advance(1))
        bus.publish({"n": 0}, key="a")
        bus.facts.wait_for("settled")
        # Nobody claimed it meanwhile, so it never changed hands.
        assert consumer.status().partitions == {0: 1}
