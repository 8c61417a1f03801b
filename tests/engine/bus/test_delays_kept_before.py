"""Delayed messages that a release kept which knew neither places nor digests: an upgrade loses and doubles none."""

from __future__ import annotations

import msgspec
import pytest

from engine.bus.delay_entries import place_of
from engine.bus.delay_mover import DelayMover
from engine.bus.delays import Cancelled, RedisDelays, Whereabouts
from engine.bus.errors import IdempotencyConflict
from engine.bus.message import Message, encode
from engine.bus.options import PublishOptions
from engine.bus.producer import Producer
from engine.core.clock import ManualClock
from tests.engine.bus.kit import TOPIC, Bus
from tests.engine.bus.test_delays import bus, elsewhere, producer, there

__all__ = ["bus", "producer"]


def kept_before(delays: RedisDelays, prefix: str, message: Message, due_ms: int, topic: str = TOPIC) -> None:
    """Keep ``message`` as a release did that knew neither places nor digests."""
    entry = msgspec.msgpack.encode((topic, encode(message), ""))
    delays._store.hset(f"{prefix}:{{delays}}:entries", message.id, entry)
    delays._store.zadd(f"{prefix}:{{delays}}:waiting", {message.id: due_ms})


def test_what_a_release_without_places_kept_is_published_and_known(
    producer: Producer, delays: RedisDelays, bus: Bus, clock: ManualClock, prefix: str
) -> None:
    message = producer.prepare(TOPIC, {"n": 1}, PublishOptions(message_id="old"))
    kept_before(delays, prefix, message, clock.now_ms() + 3_000)
    assert delays.standings([(TOPIC, "/test", "old")]) == [Whereabouts.KEPT]
    clock.advance(3)
    DelayMover(delays, lambda: producer).tick()
    assert (there(bus), delays.count()) == ([1], 0)


def test_what_a_release_without_places_kept_is_not_kept_again(
    producer: Producer, delays: RedisDelays, bus: Bus, clock: ManualClock, prefix: str
) -> None:
    later = PublishOptions(message_id="old", delay_s=60)
    message = producer.prepare(TOPIC, {"n": 1}, later)
    kept_before(delays, prefix, message, due_ms := clock.now_ms() + 60_000)
    clock.advance(10)
    again = producer.publish(TOPIC, {"n": 1}, later)
    assert (again.status, again.due_ms, delays.count()) == ("delayed", due_ms, 1)
    with pytest.raises(IdempotencyConflict, match="waits for its due time"):
        producer.publish(TOPIC, {"n": 2}, later)
    clock.advance(50)
    DelayMover(delays, lambda: producer).tick()
    assert (there(bus), delays.count()) == ([1], 0)


def test_what_a_release_without_places_kept_can_be_cancelled(
    producer: Producer, delays: RedisDelays, clock: ManualClock, prefix: str
) -> None:
    for name, due_ms in (("soon", 1_000), ("late", 60_000)):
        message = producer.prepare(TOPIC, {"n": 1}, PublishOptions(message_id=name))
        kept_before(delays, prefix, message, clock.now_ms() + due_ms)
    assert delays.cancel(TOPIC, "/another", "late") is Cancelled.UNKNOWN
    assert delays.cancel(TOPIC, "/test", "late") is Cancelled.CANCELLED
    assert delays.cancel(TOPIC, "/test", "late") is Cancelled.UNKNOWN
    assert delays.standings([(TOPIC, "/test", "late"), (TOPIC, "/test", "soon")]) == [
        Whereabouts.CANCELLED,
        Whereabouts.KEPT,
    ]
    clock.advance(1)
    (due,) = delays.due()
    assert due.place.decode() == place_of(TOPIC, "/test", "soon")
    assert delays.cancel(TOPIC, "/test", "soon") is Cancelled.TOO_LATE
    delays.complete([due])
    assert delays.count() == 0


def test_what_a_release_without_places_kept_for_others_stands_in_nobodys_way(
    bus: Bus, delays: RedisDelays, clock: ManualClock, prefix: str
) -> None:
    producer = elsewhere(bus, delays, "other")
    later = PublishOptions(message_id="old", delay_s=5)
    kept_before(delays, prefix, producer.prepare("other", {"n": 1}, later), clock.now_ms() + 60_000, "other")
    producer.publish(TOPIC, {"n": 2}, later)
    assert delays.count() == 2
    clock.advance(5)
    DelayMover(delays, lambda: producer).tick()
    assert there(bus) == [2]
    assert delays.cancel("other", "/s", "old") is Cancelled.CANCELLED


@pytest.mark.parametrize("body", [b"\xff", b"{}"])
def test_what_nobody_can_read_of_a_release_without_places_stands_in_nobodys_way(
    producer: Producer, delays: RedisDelays, clock: ManualClock, prefix: str, body: bytes
) -> None:
    delays._store.hset(f"{prefix}:{{delays}}:entries", "odd", msgspec.msgpack.encode((TOPIC, body, "")))
    delays._store.zadd(f"{prefix}:{{delays}}:waiting", {"odd": clock.now_ms() + 60_000})
    assert producer.publish(TOPIC, {"n": 1}, PublishOptions(message_id="odd", delay_s=5)).status == "delayed"
    assert delays.cancel(TOPIC, "/test", "odd") is Cancelled.CANCELLED
    assert delays.cancel(TOPIC, "/test", "odd") is Cancelled.UNKNOWN
    assert delays.count() == 1
