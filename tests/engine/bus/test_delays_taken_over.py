"""A mover that follows another, or comes back: order, what may be cancelled, and whose claim it is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine.bus.conformance.running import until
from engine.bus.delay_mover import FAILED_RETRY_S, DelayMover
from engine.bus.delays import BATCH, CLAIM_S, Cancelled, RedisDelays
from engine.bus.errors import PublishRefused
from engine.bus.options import PublishOptions
from engine.bus.producer import Producer
from engine.bus.transport import Outcome, Outgoing, Status
from engine.core.clock import ManualClock
from tests.engine.bus.kit import TOPIC, Bus
from tests.engine.bus.test_delays import bus, elsewhere, producer, there
from tests.engine.bus.test_delays_in_order import Slow, cancel, keep, ticked

__all__ = ["bus", "producer"]


@pytest.mark.parametrize("lane", [True, False])
def test_what_a_mover_had_under_way_when_it_was_stopped_goes_before_what_is_due_later(  # noqa: PLR0917
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock, lane: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as hung:
        slow, first = Slow(bus, hung), DelayMover(delays, lambda: producer)
        keep(producer, range(1))
        clock.advance(1)
        first.tick()
        assert slow.reached.wait(60)
        keep(producer, range(1, 4), after_s=0)
        clock.advance(1)
        if lane:
            first.tick()
        assert len(delays.lanes()) == lane
    second = DelayMover(delays, lambda: producer)
    for _ in range(2):
        clock.advance(1)
        second.tick()
    assert there(bus) == []
    assert cancel(delays, 2) is Cancelled.CANCELLED
    clock.advance(CLAIM_S)
    until(lambda: delays.count() == 0, between=second.tick)
    assert there(bus) == [0, 1, 3]
    slow.gate.set()


def test_what_was_claimed_and_never_sent_holds_up_its_own_topic_alone(
    bus: Bus, delays: RedisDelays, clock: ManualClock
) -> None:
    producer = elsewhere(bus, delays, "other")
    keep(producer, range(2))
    clock.advance(2)
    # Its answer is lost.
    delays.due()
    keep(producer, range(2, 4), after_s=0)
    producer.publish("other", {"n": 9}, PublishOptions(delay_s=0.001))
    clock.advance(1)
    mover = DelayMover(delays, lambda: producer)
    mover.tick()
    assert (there(bus), bus.transport.admin.counts("other")["published"]) == ([], 1)
    clock.advance(CLAIM_S)
    mover.tick()
    assert there(bus) == list(range(4))


def test_more_claims_that_ran_out_than_one_look_returns_go_in_order(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock
) -> None:
    count = BATCH + 100
    keep(producer, range(count))
    clock.advance(3)
    assert len([*delays.due(), *delays.due()]) == count
    clock.advance(CLAIM_S)
    DelayMover(delays, lambda: producer).tick()
    assert there(bus) == list(range(count))


def test_what_was_sent_and_not_answered_cannot_be_cancelled_while_it_waits_behind_others(
    bus: Bus, delays: RedisDelays, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer, store = elsewhere(bus, delays, "other"), bus.transport.publish
    mover = DelayMover(delays, lambda: producer)

    def lose(topic: str, batch: Sequence[Outgoing]) -> list[Outcome]:
        store(topic, batch)
        return [Outcome(Status.UNKNOWN, each.message_id, error="lost") for each in batch]

    keep(producer, range(1))
    clock.advance(1)
    with monkeypatch.context() as losing:
        losing.setattr(bus.transport, "publish", lose)
        ticked(mover)
    with monkeypatch.context() as hung:
        slow = Slow(bus, hung)
        producer.publish("other", {"n": 9}, PublishOptions(delay_s=FAILED_RETRY_S / 4))
        keep(producer, range(1, 2), after_s=FAILED_RETRY_S / 4)
        clock.advance(FAILED_RETRY_S / 2)
        mover.tick()
        assert slow.reached.wait(60)
        clock.advance(FAILED_RETRY_S / 2)
        mover.tick()
        assert (slow.topics, delays.lanes()) == (["other"], [TOPIC])
        # It lies in the lane as the other does, and in the log.
        assert cancel(delays, 0, "/s") is Cancelled.TOO_LATE
        assert cancel(delays, 1, "/s") is Cancelled.CANCELLED
        slow.gate.set()
        until(lambda: delays.count() == 0, between=mover.tick)
    assert there(bus) == [0]
    # Nothing of it is left: what is kept under that name from here on can be cancelled again.
    assert cancel(delays, 0, "/s") is Cancelled.UNKNOWN


def test_what_a_mover_may_have_sent_that_died_cannot_be_cancelled_once_it_is_refused(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(producer, range(2))
    clock.advance(1)
    assert len(delays.due()) == 1
    clock.advance(CLAIM_S)

    def refuse(*_: object, **__: object) -> object:
        raise PublishRefused("Not today.")

    with monkeypatch.context() as refusing:
        refusing.setattr(producer, "way", refuse)
        DelayMover(delays, lambda: producer).tick()
    # Both were refused, and wait for their next turn. The second was never sent.
    assert (cancel(delays, 0), cancel(delays, 1)) == (Cancelled.TOO_LATE, Cancelled.CANCELLED)


def test_what_comes_back_late_touches_nothing_that_another_has_claimed_since(
    producer: Producer, delays: RedisDelays, clock: ManualClock
) -> None:
    keep(producer, range(1))
    clock.advance(1)
    stale = delays.due()
    clock.advance(CLAIM_S)
    # Another publishes it, keeps another message under its name, and claims that.
    delays.complete(delays.due())
    keep(producer, range(1))
    clock.advance(1)
    (anew,) = delays.due()
    delays.complete(stale)
    delays.drop(stale)
    delays.postpone(stale, 0)
    delays.hold(stale, 0)
    delays.set_aside(TOPIC, stale)
    assert (delays.count(), delays.lanes(), delays.due()) == (1, [], [])
    assert cancel(delays, 0) is Cancelled.TOO_LATE
    delays.complete([anew])
    assert delays.count() == 0


def test_a_mover_that_leads_again_does_not_forget_what_was_kept_anew_under_the_name_of_what_it_had_under_way(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as hung:
        slow, first = Slow(bus, hung), DelayMover(delays, lambda: producer)
        keep(producer, range(1))
        clock.advance(1)
        first.tick()
        assert slow.reached.wait(60)
    clock.advance(CLAIM_S)
    DelayMover(delays, lambda: producer).tick()
    assert (there(bus), delays.count()) == ([0], 0)
    # Kept anew, and claimed by one that dies. The first leads again while its thread still hangs.
    producer.publish(TOPIC, {"n": 7}, PublishOptions(delay_s=1, message_id="m9999"))
    clock.advance(1)
    assert len(delays.due()) == 1
    clock.advance(CLAIM_S)
    first.tick()
    slow.gate.set()
    until(lambda: first._at.over() != [])
    for _ in range(2):
        first.tick()
    # It waits: the bus refused it, for its id stands for what was published.
    assert (there(bus), delays.count(), delays.overdue(), delays.lanes()) == ([0], 1, 0, [])


def test_a_lane_has_its_turn_while_others_of_its_carrier_come_due_all_the_time(
    bus: Bus, delays: RedisDelays, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = elsewhere(bus, delays, "other")
    mover = DelayMover(delays, lambda: producer)
    with monkeypatch.context() as away:
        away.setattr(
            bus.transport, "publish", lambda _, batch: [Outcome(Status.FAILED, each.message_id) for each in batch]
        )
        producer.publish("other", {"n": 0}, PublishOptions(delay_s=1))
        clock.advance(1)
        ticked(mover)
    assert delays.lanes() == ["other"]
    clock.advance(FAILED_RETRY_S)
    keep(producer, range(BATCH), after_s=0.5)
    clock.advance(1)
    # As many as there is room for.
    assert mover.promote() == BATCH + 1
    assert bus.transport.admin.counts("other")["published"] == 1
