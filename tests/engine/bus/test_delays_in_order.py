"""What is due in one topic goes in the order of its due times, however slow, hung or away its carrier is, and what is
on its way there is cancelled for nobody."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Sequence

import pytest

from engine.bus import at_carriers
from engine.bus.catalog import StaticCatalog
from engine.bus.conformance.running import until
from engine.bus.delay_mover import FAILED_RETRY_S, DelayMover
from engine.bus.delay_refusals import FIRST_PAUSE_S
from engine.bus.delays import BATCH, CLAIM_S, Cancelled, RedisDelays
from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem, Producer, Receipt
from engine.bus.transport import Outcome, Outgoing, Status
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from tests.engine.bus.kit import TOPIC, Bus
from tests.engine.bus.test_delays import bus, elsewhere, producer, there

__all__ = ["bus", "producer"]


class Slow:
    """The transport of a bus, which takes nothing before the gate is open. Its clock is the test's: what it does takes
    longer than anybody waits."""

    def __init__(self, bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = threading.Event()
        self.reached = threading.Event()
        self.topics: list[str] = []
        self._publish = bus.transport.publish
        monkeypatch.setattr(bus.transport, "publish", self.publish)
        # Nobody waits for it: the clock stands still, and would be waited for.
        monkeypatch.setattr(at_carriers, "PATIENCE_S", 0)

    def publish(self, topic: str, batch: Sequence[Outgoing]) -> list[Outcome]:
        self.topics.append(topic)
        self.reached.set()
        assert self.gate.wait(60)
        return self._publish(topic, batch)


def keep(producer: Producer, numbers: range, after_s: float = 1) -> None:
    """Each due a millisecond after the one before, with ids that run the other way."""
    items = [
        BatchItem({"n": n}, PublishOptions(delay_s=after_s + n / 1000, message_id=f"m{9_999 - n}")) for n in numbers
    ]
    assert all(isinstance(answer, Receipt) for answer in producer.publish_batch(TOPIC, items))


def ticked(mover: DelayMover) -> None:
    with contextlib.suppress(Unavailable):
        mover.tick()


def cancel(delays: RedisDelays, n: int, source: str = "/test") -> Cancelled:
    return delays.cancel(TOPIC, source, f"m{9_999 - n}")


def test_behind_a_slow_carrier_nothing_goes_before_what_was_due_sooner(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 3 * BATCH
    keep(producer, range(count))
    slow, mover = Slow(bus, monkeypatch), DelayMover(delays, lambda: producer)
    clock.advance(1.999)
    # The first batch is on its way; the second is due and may not go.
    mover.tick()
    assert (there(bus), len(delays.lanes())) == ([], 1)
    clock.advance(1)
    slow.gate.set()
    # The carrier is free when the third comes due, and the second waits still.
    until(lambda: mover._at.over() != [])
    until(lambda: delays.count() == 0, between=mover.tick)
    assert there(bus) == list(range(count))
    assert delays.lanes() == []


def test_what_goes_by_another_carrier_by_now_waits_for_what_is_on_its_way_by_the_first(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = StaticCatalog(dataclasses.replace(bus.policy, transport="another"))
    moved = Producer(lambda _: bus.transport, catalog, source="/test", facts=bus.facts, clock=clock, delays=delays)
    producers, slow = [producer], Slow(bus, monkeypatch)
    mover = DelayMover(delays, lambda: producers[-1])
    keep(producer, range(2))
    clock.advance(1)
    mover.tick()
    assert slow.reached.wait(60)
    producers.append(moved)
    clock.advance(1)
    for _ in range(2):
        mover.tick()
    assert (slow.topics, delays.lanes()) == ([TOPIC], [TOPIC])
    slow.gate.set()
    until(lambda: delays.count() == 0, between=mover.tick)
    assert there(bus) == [0, 1]


def test_while_its_carrier_hangs_what_its_thread_has_cannot_be_cancelled_and_what_waits_can(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, mover = Slow(bus, monkeypatch), DelayMover(delays, lambda: producer)
    keep(producer, range(1))
    clock.advance(1)
    mover.tick()
    assert slow.reached.wait(60)
    keep(producer, range(1, 3))
    for _ in range(3):
        # Also once its claim has run out, time and again.
        clock.advance(CLAIM_S)
        mover.tick()
        assert cancel(delays, 0) is Cancelled.TOO_LATE
    assert (delays.count(), delays.overdue()) == (3, 3)
    assert cancel(delays, 1) is Cancelled.CANCELLED
    # What is kept anew under its name is another.
    keep(producer, range(1, 2), after_s=3_600)
    slow.gate.set()
    until(lambda: there(bus) == [0, 2], between=mover.tick)
    until(lambda: delays.overdue() == 0, between=mover.tick)
    assert delays.count() == 1
    clock.advance(3_601)
    until(lambda: there(bus) == [0, 2, 1], between=mover.tick)


def test_what_waits_behind_others_is_kept_once_and_told_with_its_due_time(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, mover = Slow(bus, monkeypatch), DelayMover(delays, lambda: producer)
    keep(producer, range(1))
    clock.advance(1)
    mover.tick()
    assert slow.reached.wait(60)
    first = producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=1, message_id="twice"))
    clock.advance(1)
    mover.tick()
    assert delays.next_due_ms() == first.due_ms
    again = producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=60, message_id="twice"))
    assert (again.status, again.due_ms) == ("delayed", first.due_ms)
    slow.gate.set()
    until(lambda: delays.count() == 0, between=mover.tick)
    assert there(bus) == [0, 1]


@pytest.mark.parametrize("status", [Status.FAILED, Status.UNKNOWN])
def test_what_a_store_did_not_take_goes_before_what_came_due_meanwhile(  # noqa: PLR0917
    bus: Bus,
    producer: Producer,
    delays: RedisDelays,
    clock: ManualClock,
    status: Status,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keep(producer, range(3))
    clock.advance(1.002)
    mover, tried = DelayMover(delays, lambda: producer), []

    def publish(_: str, batch: Sequence[Outgoing]) -> list[Outcome]:
        tried.append(len(batch))
        return [Outcome(status, each.message_id, error="away") for each in batch]

    with monkeypatch.context() as away:
        away.setattr(bus.transport, "publish", publish)
        ticked(mover)
    keep(producer, range(3, 6), after_s=0)
    clock.advance(FAILED_RETRY_S / 2)
    # The store is back. These are due now, and it is not their turn.
    mover.tick()
    assert (tried, there(bus)) == ([3], [])
    # What certainly was not stored can be cancelled; of the other nobody knows.
    assert cancel(delays, 1) is (Cancelled.CANCELLED if status is Status.FAILED else Cancelled.TOO_LATE)
    clock.advance(FAILED_RETRY_S / 2)
    mover.tick()
    assert there(bus) == ([0, 2, 3, 4, 5] if status is Status.FAILED else [0, 1, 2, 3, 4, 5])
    assert delays.count() == 0


def test_what_was_refused_is_tried_again_in_its_order(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock
) -> None:
    keep(producer, range(5))
    clock.advance(2)
    nobody = Producer(
        lambda _: bus.transport, StaticCatalog(), source="/s", facts=bus.facts, clock=clock, delays=delays
    )
    mover = DelayMover(delays, lambda: nobody)
    mover.tick()
    clock.advance(FIRST_PAUSE_S)
    DelayMover(delays, lambda: producer).tick()
    assert there(bus) == list(range(5))


def test_claims_of_a_mover_that_died_are_taken_over_in_order(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock
) -> None:
    keep(producer, range(20))
    clock.advance(2)
    assert len(delays.due()) == 20
    clock.advance(CLAIM_S)
    DelayMover(delays, lambda: producer).tick()
    assert there(bus) == list(range(20))


def test_a_mover_that_follows_one_that_hung_goes_on_where_that_was(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as hung:
        slow, first = Slow(bus, hung), DelayMover(delays, lambda: producer)
        keep(producer, range(1))
        clock.advance(1)
        first.tick()
        assert slow.reached.wait(60)
        keep(producer, range(1, 4), after_s=0)
        clock.advance(1)
        first.tick()
        assert len(delays.lanes()) == 1
    clock.advance(CLAIM_S)
    second = DelayMover(delays, lambda: producer)
    second.tick()
    assert there(bus) == list(range(4))
    # What the first comes back with is stored once.
    slow.gate.set()
    until(lambda: first._at.over() != [])
    first.tick()
    assert (there(bus), delays.count()) == (list(range(4)), 0)


def test_what_nobody_claims_any_more_is_forgotten_by_nobody(
    producer: Producer, delays: RedisDelays, clock: ManualClock
) -> None:
    """A mover that was away for long may come back to a name under which another message is kept by now."""
    keep(producer, range(2))
    clock.advance(2)
    claimed = delays.due()
    delays.postpone(claimed, 60)
    for n in range(2):
        assert cancel(delays, n) is Cancelled.CANCELLED
    keep(producer, range(2), after_s=60)
    delays.complete(claimed[:1])
    delays.drop(claimed[1:])
    assert delays.count() == 2


def test_where_the_delay_path_fails_at_the_end_nothing_goes_before_that_is_seen_to(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(producer, range(2))
    clock.advance(1)
    mover = DelayMover(delays, lambda: producer)

    def die(_: object) -> None:
        raise Unavailable("not now")

    with monkeypatch.context() as dying:
        dying.setattr(delays, "complete", die)
        with pytest.raises(Unavailable, match="not now"):
            mover.tick()
        clock.advance(1)
        with pytest.raises(Unavailable, match="not now"):
            mover.tick()
    assert (there(bus), delays.count()) == ([0], 2)
    mover.tick()
    assert (there(bus), delays.count()) == ([0, 1], 0)


def test_a_topic_whose_lane_is_long_leaves_the_others_of_its_carrier_their_turn(
    bus: Bus, delays: RedisDelays, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = elsewhere(bus, delays, "other")
    slow, mover = Slow(bus, monkeypatch), DelayMover(delays, lambda: producer)
    keep(producer, range(1))
    clock.advance(1)
    mover.tick()
    assert slow.reached.wait(60)
    keep(producer, range(1, 2 * BATCH), after_s=0)
    producer.publish("other", {"n": 0}, PublishOptions(delay_s=BATCH / 2_000))
    clock.advance(2)
    mover.tick()
    slow.gate.set()
    until(lambda: delays.count() == 0, between=mover.tick)
    # Its turn is as soon as the others that lead are due later, and not when all of them have gone.
    assert slow.topics == [TOPIC, TOPIC, "other", TOPIC]
    assert there(bus) == list(range(2 * BATCH))
