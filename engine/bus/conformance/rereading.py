"""A topic can be read over again, log by log, and what retention took is counted: :mod:`engine.bus.rereading`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from engine.bus.conformance.base import NOT_DECLARED, TransportTests, Workbench, numbered, settle
from engine.bus.conformance.partitions import PARTITIONS, Partitions
from engine.bus.conformance.promises import keeps
from engine.bus.partitions import Partitioned
from engine.bus.rereading import Extent, Rereads, gone
from engine.bus.transport import Priority, Transport
from engine.core.errors import BadInput

PassTime = Callable[[float], None]


class Logs:
    """The logs of the workbench's topic."""

    def __init__(self, bench: Workbench, rereads: Rereads) -> None:
        self.bench = bench
        self.rereads = rereads
        self.topic = bench.topic

    def extents(self) -> dict[str, Extent]:
        """Those with anything in them, by name."""
        return {extent.log: extent for extent in self.rereads.extents(self.topic) if extent.last}

    def only(self) -> Extent:
        (extent,) = self.extents().values()
        return extent

    def walk(self, log: str, after: str, upto: str, limit: int = 1_000) -> Iterator[tuple[str, int, bytes]]:
        """All of a stretch, call by call."""
        while True:
            found = self.rereads.stretch(self.topic, log, after, upto=upto, limit=limit)
            assert len(found.bodies) <= limit
            yield from zip(found.positions, found.at_ms, found.bodies, strict=True)
            if found.ended:
                return
            after = found.positions[-1]

    def bodies(self, log: str, after: str, upto: str, limit: int = 1_000) -> list[bytes]:
        return [body for _, _, body in self.walk(log, after, upto, limit)]


@keeps("K43")
class RereadingConformance(TransportTests):
    @pytest.fixture
    def logs(self, bench: Workbench) -> Logs:
        if not isinstance(bench.admin, Rereads):
            pytest.skip(f"{NOT_DECLARED}re-reading")
        return Logs(bench, bench.admin)

    def test_a_topic_that_was_never_written_to_has_nothing(self, logs: Logs) -> None:
        assert logs.extents() == {}

    def test_an_extent_tells_both_ends_and_how_many(self, logs: Logs, pass_time: PassTime) -> None:
        began_ms = logs.bench.clock.now_ms()
        first, _ = logs.bench.publish(b"a", b"b")
        pass_time(5)
        (last,) = logs.bench.publish(b"c")

        extent = logs.only()

        assert (extent.first, extent.last, extent.held) == (first.position, last.position, 3)
        assert extent.added in (3, None)
        assert (extent.first_ms, extent.last_ms) == (began_ms, logs.bench.clock.now_ms())

    @pytest.mark.parametrize("limit", [1, 7, 20, 1_000])
    def test_all_of_it_comes_in_order_whatever_is_asked_for_at_once(self, logs: Logs, limit: int) -> None:
        outcomes = logs.bench.publish(*numbered(20))
        extent = logs.only()

        found = list(logs.walk(extent.log, "", extent.last, limit))

        assert [body for _, _, body in found] == numbered(20)
        assert [position for position, _, _ in found] == [outcome.position for outcome in outcomes]
        assert {at_ms for _, at_ms, _ in found} == {logs.bench.clock.now_ms()}

    def test_a_stretch_begins_after_one_place_and_ends_with_another(self, logs: Logs) -> None:
        places = [outcome.position for outcome in logs.bench.publish(*numbered(6))]
        log = logs.only().log

        assert logs.bodies(log, places[1], places[4]) == [b"m2", b"m3", b"m4"]
        assert logs.bodies(log, places[4], places[4]) == []
        assert logs.bodies(log, "", "") == []

    def test_what_is_published_meanwhile_is_not_in_it(self, logs: Logs) -> None:
        logs.bench.publish(*numbered(3))
        planned = logs.only()
        logs.bench.publish(b"later")

        assert logs.bodies(planned.log, "", planned.last) == numbered(3)
        assert logs.bodies(planned.log, planned.last, logs.only().last) == [b"later"]

    def test_reading_takes_nothing_from_a_group_and_what_is_settled_can_be_read_still(self, logs: Logs) -> None:
        logs.bench.publish(*numbered(3))
        extent = logs.only()
        assert logs.bodies(extent.log, "", extent.last) == numbered(3)

        taken = logs.bench.drain(logs.bench.receiver())

        logs.bench.expect(taken, numbered(3))
        assert logs.bodies(extent.log, "", extent.last) == numbered(3)

    def test_large_messages_come_a_few_at_a_time(self, logs: Logs) -> None:
        large = min(logs.bench.transport.capabilities.max_bytes, 12 * 1024 * 1024)
        for letter in (b"a", b"b", b"c", b"d", b"e"):
            logs.bench.publish(letter * large)
        extent = logs.only()

        calls = 0
        read, after, ended = b"", "", False
        while not ended:
            found = logs.rereads.stretch(logs.topic, extent.log, after, upto=extent.last, limit=1_000)
            read += b"".join(body[:1] for body in found.bodies)
            after, ended, calls = found.positions[-1], found.ended, calls + 1

        assert read == b"abcde"
        assert calls > 1 or large * 5 < 32 * 1024 * 1024

    def test_the_nth_is_found_without_reading(self, logs: Logs) -> None:
        places = [outcome.position for outcome in logs.bench.publish(*numbered(5))]
        nth = partial(logs.rereads.nth_after, logs.topic, logs.only().log)

        assert nth("", upto=places[-1], number=2) == (places[1], 2)
        assert nth(places[1], upto=places[-1], number=2) == (places[3], 2)
        assert nth(places[1], upto=places[-1], number=9) == (places[4], 3)
        assert nth(places[1], upto=places[2], number=9) == (places[2], 1)
        assert nth(places[4], upto=places[4], number=9) == (places[4], 0)

    def test_an_instant_parts_a_log(self, logs: Logs, pass_time: PassTime) -> None:
        logs.bench.publish(b"before")
        pass_time(10)
        at_ms = logs.bench.clock.now_ms()
        logs.bench.publish(b"at", b"after")
        extent = logs.only()

        edge = logs.rereads.place_before(logs.topic, extent.log, at_ms)

        assert logs.bodies(extent.log, "", edge) == [b"before"]
        assert logs.bodies(extent.log, edge, extent.last) == [b"at", b"after"]
        assert logs.bodies(extent.log, "", logs.rereads.place_before(logs.topic, extent.log, 0)) == []

    def test_what_retention_took_is_counted(self, logs: Logs) -> None:
        logs.bench.publish(*numbered(4))
        seen = logs.only()
        logs.bench.publish(*(b"n%d" % index for index in range(6)))
        settle(receiver := logs.bench.receiver(), logs.bench.take(receiver, 10))
        logs.bench.admin.trim(logs.topic, older_than_ms=None, keep_at_most=2)

        extent = logs.only()

        assert extent.held == 2
        assert logs.bodies(extent.log, seen.last, extent.last) == [b"n4", b"n5"]
        assert gone(extent, seen.added) == (None if extent.added is None else 4)
        assert gone(extent, None) is None

    def test_nothing_is_gone_of_what_was_read_before(self, logs: Logs) -> None:
        logs.bench.publish(*numbered(4))
        settle(receiver := logs.bench.receiver(), logs.bench.take(receiver, 4))
        seen = logs.only()
        logs.bench.admin.trim(logs.topic, older_than_ms=None, keep_at_most=1)
        logs.bench.publish(b"new")

        extent = logs.only()

        assert logs.bodies(extent.log, seen.last, extent.last) == [b"new"]
        assert not gone(extent, seen.added)

    def test_a_topic_made_anew_has_another_life(self, logs: Logs, pass_time: PassTime) -> None:
        logs.bench.publish(b"x")
        before = logs.only()
        assert logs.only() == before
        logs.bench.admin.delete_topic(logs.topic)
        pass_time(10)
        logs.bench.admin.create_topic(logs.topic)
        logs.bench.publish(b"y")

        assert logs.only().life != before.life

    def test_each_priority_is_a_log(self, logs: Logs) -> None:
        if not logs.bench.transport.capabilities.priority:
            pytest.skip(f"{NOT_DECLARED}priority")
        for priority in Priority:
            logs.bench.publish(priority.encode(), priority=priority)

        found = [logs.bodies(extent.log, "", extent.last) for extent in logs.extents().values()]

        assert sorted(found) == [[b"high"], [b"low"], [b"normal"]]

    def test_each_partition_is_a_log(self, logs: Logs, transport: Transport) -> None:
        if not isinstance(transport, Partitioned):
            pytest.skip(f"{NOT_DECLARED}partitions")
        parts = Partitions(logs.bench, transport)
        for partition in range(PARTITIONS):
            parts.publish(b"%d" % partition, b"+", partition=partition)

        extents = logs.extents()

        assert sorted(logs.bodies(each.log, each.first, each.last) for each in extents.values()) == [[b"+"]] * 4
        assert [logs.bodies(each.log, "", each.last) for each in extents.values()] == [
            [b"%d" % partition, b"+"] for partition in range(PARTITIONS)
        ]
        parts.close()

    def test_what_is_no_log_and_no_place_in_it_is_refused(self, logs: Logs) -> None:
        logs.bench.publish(b"x")
        extent = logs.only()
        for log, after, upto in (
            ("nowhere", "", extent.last),
            ("", "", extent.last),
            (extent.log, "?", extent.last),
            (extent.log, "", "9"),
        ):
            with pytest.raises(BadInput):
                logs.rereads.stretch(logs.topic, log, after, upto=upto, limit=10)
            with pytest.raises(BadInput):
                logs.rereads.nth_after(logs.topic, log, after, upto=upto, number=10)
