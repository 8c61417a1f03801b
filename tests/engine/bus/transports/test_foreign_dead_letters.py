"""Entries among the dead letters of a group that nobody of ours has written."""

from __future__ import annotations

from typing import Any

import redis

from engine.bus.partitions import Partitioned
from engine.bus.transport import Outgoing, Settlement, Transport, Verdict
from engine.bus.transports.redis_stream.topic import TopicKeys
from tests.engine.bus.transports.conftest import GROUP, TOPIC, Publish

#: What somebody writes, and what it is read as: position, body, record.
FOREIGN: list[tuple[dict[Any, Any], tuple[str, bytes, bytes]]] = [
    ({"x": "y", "z": "1"}, ("", b"x=y\nz=1", b"")),
    ({"event": b"\xff"}, ("", b"\xff", b"")),
    ({"event": b"e", "record": b"r", "position": b"\xff\x00"}, ("", b"e", b"r")),
    ({"event": b"e", "record": b"r", "position": b"nowhere"}, ("", b"e", b"r")),
]


def test_they_are_told_with_what_can_be_read_and_hold_up_no_other(
    transport: Transport, server: redis.Redis, publish: Publish
) -> None:
    # Given foreign entries before one of ours
    dead = TopicKeys("hbus", TOPIC).group(GROUP).dead
    for fields, _ in FOREIGN:
        server.xadd(dead, fields)
    publish(b"1")
    receiver = transport.receiver(TOPIC, GROUP, consumer="c", lease_ms=30_000)
    (delivery,) = receiver.receive(1, 0)
    assert receiver.settle([Settlement(delivery.receipt, Verdict.DEAD, dead=b"{}")]) == [True]

    # Then all of them are letters
    found = transport.admin.dead(TOPIC, GROUP)
    told = [(letter.position, letter.body, letter.record) for letter in found]
    assert told == [*(read for _, read in FOREIGN), (delivery.position, b"1", b"{}")]

    # And can be forgotten like any other
    assert transport.admin.forget_dead(TOPIC, GROUP, [letter.entry for letter in found]) == len(found)
    assert transport.admin.dead(TOPIC, GROUP) == []
    receiver.close()


def test_one_of_another_partition_is_forgotten_there(transport: Transport, server: redis.Redis) -> None:
    assert isinstance(transport, Partitioned)
    transport.set_partitions(TOPIC, 2)
    transport.publish(TOPIC, [Outgoing("1", b"1", partition=1)])
    dead = TopicKeys("hbus", TOPIC, 1).group(GROUP).dead
    server.xadd(dead, {"event": b"e", "record": b"r", "position": b"7-0"})
    (letter,) = transport.admin.dead(TOPIC, GROUP)
    assert letter.position == "7-0p1"
    assert transport.admin.forget_dead(TOPIC, GROUP, [letter.entry]) == 1
    assert server.xlen(dead) == 0
