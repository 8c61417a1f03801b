"""A group can be moved: exactly what lies after its new place is unsettled then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.bus.conformance.base import TransportTests, Workbench, bodies, numbered, retry, settle
from engine.bus.conformance.promises import keeps, needs
from engine.bus.transport import Priority
from engine.core.errors import BadInput


@keeps("K29")
@needs("seek")
class SeekConformance(TransportTests):
    def test_a_group_can_go_back_to_the_beginning(self, bench: Workbench) -> None:
        bench.publish(*numbered(5))
        receiver = bench.receiver()
        bench.drain(receiver)

        bench.admin.seek(bench.topic, bench.group, "beginning")

        assert bench.admin.lag(bench.topic, bench.group).waiting == 5
        assert bodies(bench.drain(receiver)) == numbered(5)

    def test_a_group_can_go_back_to_a_position(self, bench: Workbench) -> None:
        outcomes = bench.publish(*numbered(10))
        receiver = bench.receiver()
        bench.drain(receiver)

        bench.admin.seek(bench.topic, bench.group, outcomes[6].position)

        assert bench.admin.lag(bench.topic, bench.group).waiting == 3
        assert bodies(bench.drain(receiver)) == [b"m7", b"m8", b"m9"]

    def test_a_group_can_go_back_to_an_instant(self, bench: Workbench, pass_time: Callable[[float], None]) -> None:
        bench.publish(b"early")
        pass_time(10)
        instant = bench.clock.now_ms()
        bench.publish(b"then")
        pass_time(10)
        bench.publish(b"late")
        receiver = bench.receiver()
        bench.drain(receiver)

        bench.admin.seek(bench.topic, bench.group, f"@{instant}")

        assert bodies(bench.drain(receiver)) == [b"then", b"late"]

    @needs("priority")
    def test_a_position_divides_all_priorities(self, bench: Workbench, pass_time: Callable[[float], None]) -> None:
        order = [Priority.LOW, Priority.HIGH, Priority.NORMAL, Priority.HIGH, Priority.LOW]
        positions = []
        for index, priority in enumerate(order):
            positions.append(bench.publish(b"m%d" % index, priority=priority)[0].position)
            pass_time(1)
        receiver = bench.receiver()
        bench.drain(receiver)

        bench.admin.seek(bench.topic, bench.group, positions[1])

        assert sorted(bodies(bench.drain(receiver))) == [b"m2", b"m3", b"m4"]

    def test_skipping_to_the_end_drops_the_backlog_and_the_retries(
        self, bench: Workbench, pass_time: Callable[[float], None]
    ) -> None:
        bench.publish(*numbered(10))
        receiver = bench.receiver()
        first, second = bench.take(receiver, 2)
        retry(receiver, first, after_ms=1_000)

        bench.admin.seek(bench.topic, bench.group, "end")

        lag = bench.admin.lag(bench.topic, bench.group)
        assert (lag.unsettled, lag.oldest_ms) == (0, None)
        pass_time(2 * self.lease_ms / 1000)
        assert receiver.receive(10, 0) == []
        assert settle(receiver, [second]) == [False]
        bench.publish(b"new")
        assert bodies(bench.drain(receiver)) == [b"new"]

    def test_what_was_in_flight_is_delivered_again_and_its_old_receipt_owns_nothing(self, bench: Workbench) -> None:
        bench.publish(b"x")
        one, two = bench.receiver("twin"), bench.receiver("twin")
        old = bench.take_one(one)

        bench.admin.seek(bench.topic, bench.group, "beginning")
        new = bench.take_one(two)

        assert new.attempt == 1
        assert one.extend([old.receipt]) == [False]
        assert retry(one, old) is False
        assert two.extend([new.receipt]) == [True]

    def test_moving_one_group_leaves_the_others(self, bench: Workbench) -> None:
        bench.admin.create_group(bench.topic, "others")
        bench.publish(*numbered(5))
        bench.drain(bench.receiver())
        bench.take(bench.receiver(group="others"), 2)

        bench.admin.seek(bench.topic, bench.group, "beginning")

        lag = bench.admin.lag(bench.topic, "others")
        assert (lag.waiting, lag.in_flight) == (3, 2)

    @keeps("K14")
    def test_a_new_group_can_replay_from_a_position(self, bench: Workbench) -> None:
        outcomes = bench.publish(*numbered(5))

        bench.admin.create_group(bench.topic, "replay", outcomes[2].position)

        assert bench.admin.lag(bench.topic, "replay").waiting == 2
        assert bodies(bench.drain(bench.receiver(group="replay"))) == [b"m3", b"m4"]

    @pytest.mark.parametrize("position", ["yesterday", "@noon", "1-2-3", "-5", "1-1,2-2"])
    def test_what_is_no_position_is_refused_and_moves_nothing(self, bench: Workbench, position: str) -> None:
        bench.publish(*numbered(3))
        bench.drain(bench.receiver())

        with pytest.raises(BadInput) as caught:
            bench.admin.seek(bench.topic, bench.group, position)

        assert caught.value.field == "position"
        assert bench.admin.lag(bench.topic, bench.group).unsettled == 0
