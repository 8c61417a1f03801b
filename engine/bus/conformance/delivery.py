"""What is published arrives: whole, in order, at every group, once while nothing fails."""

from __future__ import annotations

from engine.bus.conformance.base import TransportTests, Workbench, bodies, numbered, settle
from engine.bus.conformance.promises import keeps, needs


class DeliveryConformance(TransportTests):
    @keeps("K1")
    def test_messages_published_before_anybody_reads_all_arrive(self, bench: Workbench) -> None:
        # Given 100 messages that lie in the topic
        bench.publish(*numbered(100))

        # When a consumer reads
        taken = bench.take(bench.receiver(), 100)

        # Then it gets every one, as a first attempt
        bench.expect(taken, numbered(100))
        assert {delivery.attempt for delivery in taken} == {1}
        assert {delivery.history for delivery in taken} == {()}

    @needs("browse", "ordered")
    def test_a_delivery_has_the_position_of_its_outcome(self, bench: Workbench) -> None:
        outcomes = bench.publish(*numbered(20))

        taken = bench.take(bench.receiver(), 20)

        assert [delivery.position for delivery in taken] == [outcome.position for outcome in outcomes]

    @keeps("K4")
    def test_what_was_acknowledged_is_not_delivered_again(self, bench: Workbench) -> None:
        bench.publish(*numbered(10))
        receiver = bench.receiver()
        assert len(bench.drain(receiver)) == 10

        # When the lease time has long passed
        bench.clock.advance(3 * bench.lease_ms / 1000)

        # Then nobody gets anything
        assert receiver.receive(10, 0) == []
        assert bench.receiver("two").receive(10, 0) == []

    def test_receive_gives_no_more_than_asked_for(self, bench: Workbench) -> None:
        bench.publish(*numbered(10))
        receiver = bench.receiver()

        first = bench.take_some(receiver, 3)
        bench.expect([*first, *bench.take(receiver, 10 - len(first))], numbered(10))

    def test_receive_from_an_empty_topic_gives_nothing(self, bench: Workbench) -> None:
        assert bench.receiver().receive(10, 0) == []

    @keeps("K16")
    def test_every_group_gets_every_message(self, bench: Workbench) -> None:
        bench.admin.create_group(bench.topic, "others")
        bench.publish(*numbered(50))

        bench.expect(bench.drain(bench.receiver()), numbered(50))
        bench.expect(bench.drain(bench.receiver(group="others")), numbered(50))

    @keeps("K2")
    def test_consumers_of_one_group_share_its_messages(self, bench: Workbench) -> None:
        bench.publish(*numbered(20))
        one, two = bench.receiver("one"), bench.receiver("two")

        # When both read in turn
        first, second = bench.take(one, 10), bench.take(two, 10)

        # Then each message came to one of them
        assert sorted(bodies(first) + bodies(second)) == sorted(numbered(20))

    @keeps("K11")
    def test_topics_do_not_leak_into_each_other(self, bench: Workbench) -> None:
        other = bench.make_topic()
        bench.admin.create_group(other, bench.group)
        bench.publish(b"here")
        bench.publish(b"there", topic=other)

        assert bodies(bench.drain(bench.receiver())) == [b"here"]
        assert bodies(bench.drain(bench.receiver(topic=other))) == [b"there"]

    @keeps("K14")
    @needs("seek")
    def test_a_group_made_late_can_read_from_the_beginning(self, bench: Workbench) -> None:
        bench.publish(*numbered(5))
        bench.drain(bench.receiver())

        bench.admin.create_group(bench.topic, "late", "beginning")

        assert bodies(bench.drain(bench.receiver(group="late"))) == numbered(5)

    def test_a_group_made_at_the_end_gets_only_what_comes_after(self, bench: Workbench) -> None:
        bench.publish(*numbered(5))
        bench.admin.create_group(bench.topic, "late", "end")
        bench.publish(b"new")

        assert bodies(bench.drain(bench.receiver(group="late"))) == [b"new"]

    @keeps("K6")
    def test_reading_goes_on_where_a_closed_receiver_stopped(self, bench: Workbench) -> None:
        bench.publish(*numbered(30))

        # When consumers come and go, each taking some
        taken: list[bytes] = []
        for turn in range(6):
            receiver = bench.receiver(f"c{turn}")
            batch = bench.take(receiver, 5)
            settle(receiver, batch)
            receiver.close()
            taken += bodies(batch)

        # Then together they had everything, once
        bench.expect(taken, numbered(30))

    def test_publishing_and_reading_interleave_without_loss(self, bench: Workbench) -> None:
        receiver = bench.receiver()
        taken: list[bytes] = []
        for turn in range(20):
            bench.publish(*numbered(7, start=turn * 7))
            taken += bodies(bench.drain(receiver))
        bench.expect(taken, numbered(140))
