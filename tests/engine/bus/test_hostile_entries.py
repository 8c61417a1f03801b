"""Entries of a stream that nobody of ours has written: odd fields, ids from the end of time, keys with nulls."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import redis

from engine.bus.handlers import adapt
from engine.bus.message import Message, encode
from engine.bus.transport import Attempt, Settlement, Verdict
from engine.bus.transports.redis_stream.topic import TopicKeys
from engine.core.clock import ManualClock
from tests.engine.bus.hostile_envelopes import CORPUS
from tests.engine.bus.hostile_house import Journal, MakeHouse, make_house
from tests.engine.bus.kit import GROUP, TOPIC, running, until

__all__ = ["make_house"]


def test_entries_of_a_stream_that_are_none_of_ours(make_house: MakeHouse, redis_url: str, prefix: str) -> None:
    """Fields that are missing, odd or more than one, and ids from the end of time."""
    house, journal = make_house("redis_stream", 1), Journal()
    client, keys = redis.Redis.from_url(redis_url), TopicKeys(f"{prefix}0", TOPIC)
    house.publish()
    for fields in (
        {"x": "y"}, {"": ""}, {b"\xff": b"\xfe"}, {"EVENT": b"x"}, {"other": b"1", "event": CORPUS["data and bytes"]},
        {f"f{number}": "v" for number in range(500)}, {"event": b"\xff", "event2": b"x"},
    ):  # fmt: skip
        for stream in keys.streams:
            client.xadd(stream, fields)
        house.publish()
    number = client.xlen(keys.streams[1]) - house.genuine
    assert number
    with running(house.consumer(journal.looking)):
        house.finish()
        assert journal.by_key.keys() == house.expected.keys()
        assert len(house.bus.facts.of("dead")) == 3 * number
    assert len(house.stored()) == 3 * number + house.genuine
    for stored in house.stored():
        assert house.bus.transport.admin.read(TOPIC, stored.position) == stored


@pytest.mark.parametrize("at", ["9999999999999-5", "99999999999999-0", "9007199254740993-7", "9223372036854775807-1"])
@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
def test_an_id_from_the_end_of_time_holds_nothing(
    make_house: MakeHouse, redis_url: str, prefix: str, at: str, ordered: bool
) -> None:
    """Whatever comes after it gets ids in its millisecond, and is released, tried again, parked and buried as ever."""
    house = make_house("redis_stream", 1)
    bus, clock = house.bus, house.bus.clock
    assert isinstance(clock, ManualClock)
    house.publish()
    redis.Redis.from_url(redis_url).xadd(TopicKeys(f"{prefix}0", TOPIC).streams[1], {"event": b"x"}, id=at)
    for _ in range(12):
        house.publish()
    positions = [stored.position for stored in house.stored()]
    transport: Any = bus.transport.inner
    if ordered:
        receiver = transport.partitioned_receiver(
            TOPIC, GROUP, consumer="c1", lease_ms=1_000, partitions=1, seat_ms=60_000
        )
        receiver.turn(sit=True)
    else:
        receiver = transport.receiver(TOPIC, GROUP, consumer="c1", lease_ms=1_000)
    attempt = Attempt(1, 0, 0, "c1", "x")
    for settle in (
        lambda each: Settlement(each.receipt, Verdict.RELEASE),
        lambda each: Settlement(each.receipt, Verdict.RETRY, 500, attempt),
        lambda each: Settlement(each.receipt, Verdict.PARK, 0, attempt, b"{}", "k") if ordered else None,
        # Left to run out.
        lambda each: None,
        lambda each: Settlement(each.receipt),
    ):
        found = receiver.receive(100, 0)
        assert [each.position for each in found] == positions
        settlements = [asked for each in found if (asked := settle(each)) is not None]
        assert all(receiver.settle(settlements))
        if any(each.verdict is Verdict.PARK for each in settlements):
            assert bus.transport.admin.lag(TOPIC, GROUP).parked == len(positions)
            assert [stored.position for stored in bus.transport.set_aside(TOPIC, GROUP, "k")] == positions
            bus.transport.unpark(TOPIC, GROUP, "k", "retry")
        clock.advance(2)
    assert bus.unsettled() == 0
    assert bus.transport.admin.checkpoint(TOPIC, GROUP)
    bus.transport.admin.trim(TOPIC, older_than_ms=1, keep_at_most=None)
    receiver.close()


KEYS_ALIKE = (
    "a", "a\x00b", "a\x00" + "0" * 19 + "-" + "0" * 20, "a\x01", "a\x00", "\x00", "a\U0010ffff", "x" * 9_000,
)  # fmt: skip


@pytest.mark.parametrize("kind", ["memory", "redis_stream"])
def test_keys_that_begin_alike_are_unparked_apart(make_house: MakeHouse, kind: str) -> None:
    house, journal = make_house(kind, 2), Journal()
    transport = house.bus.transport
    for key in KEYS_ALIKE:
        for _ in range(2):
            house.put(1, encode(_message(key)))
    with running(house.consumer(adapt(journal.typed), concurrency=4, ordering="key", on_failed_head="park")):
        until(lambda: transport.admin.lag(TOPIC, GROUP).parked == 2 * len(KEYS_ALIKE))
        for key in KEYS_ALIKE:
            assert len(transport.set_aside(TOPIC, GROUP, key)) == 2, key
            taken = transport.unpark(TOPIC, GROUP, key, "dead")
            assert taken is not None, key
            assert taken.messages == 1, key
        house.finish()
    assert len(transport.admin.dead(TOPIC, GROUP)) == 2 * len(KEYS_ALIKE)


def _message(key: str) -> Message:
    return Message(id="h", source="/hostile", type="t", partitionkey=key, data=msgspec.Raw(b'"no booking"'))


def test_facts_hold_no_more_of_a_name_than_the_evidence(make_house: MakeHouse) -> None:
    house, journal = make_house("memory", 1), Journal()
    long = dict.fromkeys(("id", "type", "partitionkey", "correlationid", "causationid"), "ü" * 100000)
    house.put(0, encode(msgspec.structs.replace(_message("k"), source="/hostile" * 10_000, **long)))
    house.put(0, encode(msgspec.structs.replace(_message("k"), expirytime="2020-11-21T08:00:00." + "9" * 90_000 + "Z")))
    house.put(0, encode(msgspec.structs.replace(_message("short"), data=msgspec.Raw(b'"' + b"x" * 9_000 + b'"'))))
    with running(house.consumer(journal.looking)):
        house.finish()
        house.bus.facts.wait_for("expired")
        settled = house.bus.facts.wait_for("settled", 2)
    assert len(msgspec.json.encode(house.bus.facts.seen)) < 10_000
    assert {(len(fact.message_id), len(fact.source), fact.key) for fact in settled} == {
        (64, 300, "ü" * 200),
        (1, 8, "short"),
    }
