"""Higher priorities go first under backlog."""

from __future__ import annotations

from engine.bus.conformance.base import TransportTests, Workbench, bodies, retry
from engine.bus.conformance.promises import keeps, needs
from engine.bus.transport import Priority


@keeps("K25")
@needs("priority", "ordered")
class PriorityConformance(TransportTests):
    def fill(self, bench: Workbench) -> None:
        for turn in range(3):
            for priority in (Priority.LOW, Priority.NORMAL, Priority.HIGH):
                bench.publish(f"{priority} {turn}".encode(), priority=priority)

    def test_a_backlog_is_delivered_by_priority_and_in_order_within_each(self, bench: Workbench) -> None:
        self.fill(bench)

        taken = bench.take(bench.receiver(), 9)

        expected = [f"{priority} {turn}".encode() for priority in ("high", "normal", "low") for turn in range(3)]
        assert bodies(taken) == expected
        assert [delivery.priority for delivery in taken] == [
            priority for priority in (Priority.HIGH, Priority.NORMAL, Priority.LOW) for _ in range(3)
        ]

    def test_an_urgent_message_overtakes_a_backlog(self, bench: Workbench) -> None:
        bench.publish(*[b"normal"] * 50)
        receiver = bench.receiver()
        bench.take(receiver, 10)

        bench.publish(b"urgent", priority=Priority.HIGH)

        assert bench.take_one(receiver).body == b"urgent"

    def test_a_limit_smaller_than_the_urgent_ones_leaves_the_others_waiting(self, bench: Workbench) -> None:
        self.fill(bench)

        assert bodies(bench.receiver().receive(2, 0)) == [b"high 0", b"high 1"]

    def test_retries_keep_their_priority(self, bench: Workbench) -> None:
        bench.publish(b"low", priority=Priority.LOW)
        receiver = bench.receiver()
        retry(receiver, bench.take_one(receiver))

        again = bench.take_one(receiver)

        assert (again.body, again.priority, again.attempt) == (b"low", Priority.LOW, 2)
        assert receiver.extend([again.receipt]) == [True]

    def test_every_priority_is_settled_counted_and_browsed_alike(self, bench: Workbench) -> None:
        self.fill(bench)
        assert bench.admin.lag(bench.topic, bench.group).waiting == 9

        page = bench.admin.browse(bench.topic)
        bench.drain(bench.receiver())

        assert len(page.entries) == 9
        assert bench.admin.lag(bench.topic, bench.group).unsettled == 0
        assert bench.admin.depth(bench.topic).messages == 9
