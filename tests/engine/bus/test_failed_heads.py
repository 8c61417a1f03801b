"""on_failed_head: what a message that fails does to those of its key behind it."""

from __future__ import annotations

import msgspec
import pytest

from engine.bus import dead
from engine.bus.conformance.ordering import Journal
from engine.bus.options import PublishOptions
from engine.bus.policy import RetryPolicy
from engine.core.clock import ManualClock
from tests.engine.bus.kit import GROUP, TOPIC, Bus, running, until

TWICE = RetryPolicy(2, (1.0,))


def publish(bus: Bus, *numbers: int, key: str = "a") -> None:
    for n in numbers:
        bus.publish({"n": n}, key=key)


def test_passing_lets_the_next_go_on_at_once_and_tries_the_failed_one_later(any_bus: Bus, clock: ManualClock) -> None:
    bus = any_bus
    publish(bus, 0, 1, 2)
    journal = Journal()
    journal.fail = {0}
    with running(bus.consumer(journal, ordering="key", on_failed_head="pass")):
        bus.facts.wait_for("settled", 2)
        assert journal.by_key["a"] == [1, 2]
        journal.fail.clear()
        until(lambda: len(bus.facts.of("settled")) == 3, between=lambda: clock.advance(1))
    assert journal.by_key["a"] == [1, 2, 0]


def park_a(bus: Bus, clock: ManualClock, journal: Journal) -> None:
    """Key ``a`` fails at 0 and is parked with 1 and 2; ``b`` goes on."""
    journal.fail = {0}
    publish(bus, 0, 1, 2)
    publish(bus, 3, 4, key="b")
    until(lambda: len(bus.facts.of("parked")) == 3, between=lambda: clock.advance(1))
    bus.facts.wait_for("settled", 2)
    assert journal.by_key == {"b": [3, 4]}


def test_a_parked_key_keeps_its_messages_in_order_until_it_is_unparked(any_bus: Bus, clock: ManualClock) -> None:
    bus, journal = any_bus, Journal()
    with running(bus.consumer(journal, ordering="key", on_failed_head="park", retry=TWICE)):
        park_a(bus, clock, journal)
        # What comes for it now is set aside too; others are not held up.
        publish(bus, 5)
        publish(bus, 6, key="b")
        bus.facts.wait_for("parked", 4)
        bus.facts.wait_for("settled", 3)
        (parked,) = bus.transport.parked(TOPIC, GROUP)
        assert (parked.key, parked.partition, parked.messages) == ("a", 0, 4)
        assert [attempt.number for attempt in dead.decode(parked.record).history] == [1, 2]
        lag = bus.transport.admin.lag(TOPIC, GROUP)
        assert (lag.parked, lag.retrying, lag.unsettled, lag.dead) == (4, 0, 4, 0)
        aside = bus.transport.set_aside(TOPIC, GROUP, "a")
        assert aside[0].position == parked.position
        assert bus.transport.set_aside(TOPIC, GROUP, "a", limit=2) == aside[:2]
        journal.fail.clear()
        decided = bus.transport.unpark(TOPIC, GROUP, "a", "retry")
        assert decided is not None
        assert (decided.messages, decided.head) == (4, aside[0])
        bus.facts.wait_for("settled", 7)
        assert bus.transport.unpark(TOPIC, GROUP, "a", "retry") is None
    assert journal.by_key["a"] == [0, 1, 2, 5]
    (head,) = [fact for fact in bus.facts.of("settled") if fact.position == parked.position]
    assert head.attempt == 1
    assert bus.transport.admin.lag(TOPIC, GROUP).unsettled == 0
    assert bus.facts.of("lease_lost") == []


@pytest.mark.parametrize(("head", "count"), [("skip", "skipped"), ("dead", "dead")])
def test_a_parked_head_is_skipped_or_buried_and_the_rest_goes_on(
    any_bus: Bus, clock: ManualClock, head: str, count: str
) -> None:
    bus, journal = any_bus, Journal()
    with running(bus.consumer(journal, ordering="key", on_failed_head="park", retry=TWICE)):
        park_a(bus, clock, journal)
        decided = bus.transport.unpark(TOPIC, GROUP, "a", head)
        assert decided is not None
        assert decided.messages == 2
        bus.facts.wait_for("settled", 4)
    assert journal.by_key["a"] == [1, 2]
    letters = bus.transport.admin.dead(TOPIC, GROUP)
    assert len(letters) == (head == "dead")
    if letters:
        assert dead.decode(letters[0].record).cause == "ValueError: # fails"
        assert decided.head is not None
        assert letters[0].body == decided.head.body
    assert bus.transport.admin.counts(TOPIC, GROUP)[count] == 1
    assert bus.transport.admin.lag(TOPIC, GROUP).unsettled == 0


def test_a_parked_key_outlives_its_consumer(any_bus: Bus, clock: ManualClock) -> None:
    bus, journal = any_bus, Journal()
    with running(first := bus.consumer(journal, ordering="key", on_failed_head="park", retry=TWICE)):
        park_a(bus, clock, journal)
        assert first.stop(10.0).clean
    journal.fail.clear()
    publish(bus, 5)
    publish(bus, 6, key="b")
    with running(bus.consumer(journal, name="c2", ordering="key", on_failed_head="park", retry=TWICE)):
        bus.facts.wait_for("settled", 3)
        bus.facts.wait_for("parked", 4)
        assert journal.by_key == {"b": [3, 4, 6]}
        bus.transport.unpark(TOPIC, GROUP, "a", "retry")
        bus.facts.wait_for("settled", 7)
    assert journal.by_key["a"] == [0, 1, 2, 5]


def test_a_message_without_key_dies_under_park_as_under_block(any_bus: Bus, clock: ManualClock) -> None:
    bus, journal = any_bus, Journal()
    journal.fail = {0}
    bus.publish({"n": 0})
    with running(bus.consumer(journal, ordering="key", on_failed_head="park", retry=TWICE)):
        until(lambda: len(bus.facts.of("dead")) == 1, between=lambda: clock.advance(1))
    assert bus.transport.parked(TOPIC, GROUP) == []


def test_a_seek_forgets_what_was_parked(any_bus: Bus, clock: ManualClock) -> None:
    bus, journal = any_bus, Journal()
    with running(bus.consumer(journal, ordering="key", on_failed_head="park", retry=TWICE)):
        park_a(bus, clock, journal)
        journal.fail.clear()
        bus.transport.admin.seek(TOPIC, GROUP, "beginning")
        bus.facts.wait_for("settled", 7)
    assert journal.by_key["a"] == [0, 1, 2]
    assert bus.transport.parked(TOPIC, GROUP) == []


def test_a_copy_for_another_subscription_is_settled_behind_a_parked_key(any_bus: Bus, clock: ManualClock) -> None:
    bus, journal = any_bus, Journal()
    with running(bus.consumer(journal, ordering="key", on_failed_head="park", retry=TWICE)):
        park_a(bus, clock, journal)
        made = [bus.producer.prepare(TOPIC, {"n": n}, PublishOptions(key="a")) for n in (5, 6)]
        bus.producer.send(TOPIC, [msgspec.structs.replace(each, hbustarget="billing") for each in made])
        publish(bus, 7, key="b")
        bus.facts.wait_for("settled", 3)
        until(lambda: bus.transport.admin.lag(TOPIC, GROUP).unsettled == 3)
        assert bus.transport.admin.lag(TOPIC, GROUP).parked == len(bus.facts.of("parked")) == 3
    assert journal.by_key == {"b": [3, 4, 7]}
