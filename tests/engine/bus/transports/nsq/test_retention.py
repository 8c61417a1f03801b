"""A topic that nobody reads fills nsqd's disk: retention empties it; what a subscription waits for is never touched."""

from __future__ import annotations

from engine.bus.transport import Outgoing
from tests.engine.bus.transports.nsq.conftest import GROUP, TOPIC, Bench, eventually, take

UNREAD = "invoice.drafted"


def fill(bench: Bench, number: int) -> None:
    bench.admin.create_topic(UNREAD)
    bench.transport.publish(UNREAD, [Outgoing(f"m{index}", b"x") for index in range(number)])
    eventually(lambda: bench.admin.depth(UNREAD).messages == number)


def test_too_many_unread_messages_go(bench: Bench) -> None:
    fill(bench, 5)
    assert bench.admin.trim(UNREAD, older_than_ms=None, keep_at_most=10).removed == 0
    assert bench.admin.trim(UNREAD, older_than_ms=None, keep_at_most=4).removed == 5
    assert bench.admin.depth(UNREAD).messages == 0
    bench.admin.delete_topic(UNREAD)


def test_unread_messages_go_when_the_youngest_is_too_old(bench: Bench) -> None:
    fill(bench, 3)
    assert bench.admin.trim(UNREAD, older_than_ms=60_000, keep_at_most=None).removed == 0
    assert bench.admin.trim(UNREAD, older_than_ms=-2_000, keep_at_most=None).removed == 3
    bench.admin.delete_topic(UNREAD)


def test_what_a_group_has_not_settled_stays(bench: Bench) -> None:
    bench.publish(b"x", b"y")
    assert bench.admin.trim(TOPIC, older_than_ms=-2_000, keep_at_most=0).removed == 0
    assert len(take(bench.receiver(), 2)) == 2
    assert bench.admin.lag(TOPIC, GROUP).in_flight == 2
