"""An inbox that is away is the worker's trouble: it waits, and no message loses an attempt."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.bus.conformance.running import SetInbox
from engine.bus.errors import InboxAway
from engine.bus.policy import RetryPolicy
from engine.core.clock import ManualClock
from tests.engine.bus.kit import Bus, Recorder, running, until

ONCE = RetryPolicy(1, (10.0,))


class LockedInbox(SetInbox):
    """Does not answer ``away`` times: before the handler, or after it, where what it did is undone."""

    def __init__(self, away: int, *, after: bool = False) -> None:
        super().__init__()
        self.away = away
        self.asked = 0
        self._after = after

    def once(self, subscription: str, source: str, message_id: str, effect: Callable[[], object]) -> bool:
        self.asked += 1
        if self.asked > self.away:
            return super().once(subscription, source, message_id, effect)
        if self._after:
            effect()
        raise InboxAway("database is locked")


@pytest.mark.parametrize("after", [False, True], ids=["before the handler", "at the commit"])
def test_a_locked_database_costs_no_attempt(bus: Bus, clock: ManualClock, after: bool) -> None:
    inbox, handler = LockedInbox(3, after=after), Recorder()
    bus.publish()
    consumer = bus.consumer(handler, retry=ONCE, inbox=inbox, transactional=True, concurrency=1)
    with running(consumer):
        until(lambda: bool(bus.facts.of("settled")), between=lambda: clock.advance(1))
        assert consumer.status().last_error == "InboxAway: database is locked"
        assert consumer.status().failed == 0
    assert inbox.asked == 4
    assert len(handler.calls) == (4 if after else 1)
    assert not bus.facts.of("retried")
    assert not bus.facts.of("dead")


def test_it_is_asked_ever_more_seldom(bus: Bus, clock: ManualClock) -> None:
    inbox = LockedInbox(10_000)
    bus.publish()
    with running(bus.consumer(Recorder(), inbox=inbox, transactional=True, concurrency=1)):
        until(lambda: inbox.asked >= 8, between=lambda: clock.advance(1))
        asked, begun = inbox.asked, clock.monotonic()
        until(lambda: inbox.asked > asked + 2, between=lambda: clock.advance(0.5))
        assert clock.monotonic() - begun > 3, "up to five seconds lie between two questions"


@pytest.mark.parametrize("ordering", ["none", "key"])
def test_a_consumer_that_stops_hands_back_what_waits_for_the_inbox(any_bus: Bus, ordering: str) -> None:
    if ordering == "key":
        any_bus.transport.set_partitions("booking.created", 1)
    inbox = LockedInbox(10_000)
    receipts = [any_bus.publish(key="k"), any_bus.publish(key="k")]
    consumer = any_bus.consumer(
        Recorder(), retry=ONCE, inbox=inbox, transactional=True, ordering=ordering, concurrency=1
    )
    with running(consumer):
        until(lambda: inbox.asked > 0)
        consumer.stop(30.0)
    seen: list[tuple[str, int]] = []
    handler = Recorder(lambda message, context: seen.append((message.id, context.attempt)))
    again = any_bus.consumer(
        handler, name="c2", retry=ONCE, inbox=SetInbox(), transactional=True, ordering=ordering, concurrency=1
    )
    with running(again):
        handler.wait_for(2)
    assert sorted(seen) == sorted((receipt.message_id, 1) for receipt in receipts)
    if ordering == "key":
        assert [message_id for message_id, _ in seen] == [receipt.message_id for receipt in receipts]


def test_nobody_gives_up_a_handler_that_does_not_run(bus: Bus, clock: ManualClock) -> None:
    inbox, handler = LockedInbox(6), Recorder()
    bus.publish()
    consumer = bus.consumer(handler, retry=ONCE, inbox=inbox, transactional=True, concurrency=1, max_handler_s=2.0)
    with running(consumer):
        until(lambda: bool(bus.facts.of("settled") or bus.facts.of("dead")), between=lambda: clock.advance(0.5))
    assert not bus.facts.of("dead")
    assert len(handler.calls) == 1


def test_what_the_handler_raises_is_an_attempt(bus: Bus) -> None:
    def fail(message: object, context: object) -> None:
        raise OSError("database is locked")

    bus.publish()
    with running(bus.consumer(Recorder(fail), retry=ONCE, inbox=SetInbox(), transactional=True)):
        bus.facts.wait_for("dead")
