"""What the delay path remembers of messages that were cancelled, for whoever misses them."""

from __future__ import annotations

import dataclasses

import pytest

from engine.bus import delays as delay_path
from engine.bus.catalog import StaticCatalog
from engine.bus.delay_mover import DelayMover
from engine.bus.delays import Cancelled, RedisDelays, Whereabouts
from engine.bus.options import PublishOptions
from engine.bus.producer import Producer
from engine.core.clock import ManualClock
from tests.engine.bus.kit import TOPIC, Bus
from tests.engine.bus.test_delays import bus, producer, there

__all__ = ["bus", "producer"]


def named(*ids: str) -> list[tuple[str, str, str]]:
    return [(TOPIC, "/test", each) for each in ids]


def keep(producer: Producer, message_id: str, delay_s: float = 5) -> None:
    assert producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=delay_s, message_id=message_id)).due_ms


def cancel(delays: RedisDelays, message_id: str) -> None:
    assert delays.cancel(*named(message_id)[0]) is Cancelled.CANCELLED


def remembered(delays: RedisDelays) -> int:
    return int(delays._store.zcard(delays._cancelled))


def test_what_was_cancelled_stands_apart_from_what_was_published_and_what_was_lost(
    producer: Producer, delays: RedisDelays, clock: ManualClock
) -> None:
    for each in ("cancelled", "published", "kept", "moving"):
        keep(producer, each, 60 if each == "kept" else 5)
    cancel(delays, "cancelled")
    clock.advance(5)
    delays.complete([item for item in delays.due() if b"published" in item.place])
    assert delays.standings(named("cancelled", "published", "kept", "moving", "never")) == [
        Whereabouts.CANCELLED,
        Whereabouts.GONE,
        Whereabouts.KEPT,
        Whereabouts.KEPT,
        Whereabouts.GONE,
    ]
    assert delays.standings([(TOPIC, "/another", "cancelled")]) == [Whereabouts.GONE]


def test_what_is_kept_anew_is_not_cancelled_any_more(
    producer: Producer, delays: RedisDelays, clock: ManualClock, bus: Bus
) -> None:
    keep(producer, "again")
    cancel(delays, "again")
    keep(producer, "again")
    assert delays.standings(named("again")) == [Whereabouts.KEPT]
    clock.advance(5)
    DelayMover(delays, lambda: producer).tick()
    assert there(bus) == [1]
    # So that it is told as lost, should it be.
    assert delays.standings(named("again")) == [Whereabouts.GONE]


def test_a_cancellation_is_forgotten_when_it_is_known_and_after_a_while(
    producer: Producer, delays: RedisDelays, clock: ManualClock
) -> None:
    for each in ("known", "old"):
        keep(producer, each)
        cancel(delays, each)
    delays.forget_cancelled(named("known"))
    assert delays.standings(named("known", "old")) == [Whereabouts.GONE, Whereabouts.CANCELLED]
    clock.advance(delay_path.CANCELLED_S + 1)
    keep(producer, "new")
    cancel(delays, "new")
    assert delays.standings(named("old", "new")) == [Whereabouts.GONE, Whereabouts.CANCELLED]
    assert remembered(delays) == 1


@pytest.mark.parametrize("meant", ["1", "2"])
def test_what_was_given_up_with_its_topic_counts_as_cancelled(
    bus: Bus, delays: RedisDelays, clock: ManualClock, meant: str
) -> None:
    def producer_of(incarnation: str) -> Producer:
        catalog = StaticCatalog(dataclasses.replace(bus.policy, incarnation=incarnation))
        return Producer(lambda _: bus.transport, catalog, source="/test", facts=bus.facts, clock=clock, delays=delays)

    keep(producer_of(meant), "m")
    clock.advance(5)
    DelayMover(delays, lambda: producer_of("2")).tick()
    assert delays.standings(named("m")) == [Whereabouts.CANCELLED if meant == "1" else Whereabouts.GONE]
    assert delays.count() == 0
