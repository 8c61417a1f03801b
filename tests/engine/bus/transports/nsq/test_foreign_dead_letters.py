"""Entries among the dead letters of a group on NSQ that nobody of ours has written."""

from __future__ import annotations

import redis

from engine.bus.transport import Settlement, Verdict
from engine.bus.transports.nsq.names import TopicNames
from tests.engine.bus.transports.nsq.conftest import GROUP, TOPIC, Bench, take
from tests.engine.bus.transports.test_foreign_dead_letters import FOREIGN


def test_they_are_told_with_what_can_be_read_and_hold_up_no_other(bench: Bench, redis_url: str) -> None:
    dead = TopicNames(bench.prefix, TOPIC).group(GROUP).dead
    with redis.Redis.from_url(redis_url) as server:
        for fields, _ in FOREIGN:
            server.xadd(dead, fields)
    receiver = bench.receiver()
    bench.publish(b"1")
    (delivery,) = take(receiver, 1)
    assert receiver.settle([Settlement(delivery.receipt, Verdict.DEAD, dead=b"{}")]) == [True]
    found = bench.admin.dead(TOPIC, GROUP)
    told = [(letter.position, letter.body, letter.record) for letter in found]
    assert told == [*(read for _, read in FOREIGN), (delivery.position, b"1", b"{}")]
    assert bench.admin.forget_dead(TOPIC, GROUP, [letter.entry for letter in found]) == len(found)
    assert bench.admin.dead(TOPIC, GROUP) == []
