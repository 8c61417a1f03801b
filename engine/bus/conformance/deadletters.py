"""A dead message is kept exactly once, until somebody has taken it over."""

from __future__ import annotations

from engine.bus.conformance.base import TransportTests, Workbench, bodies, bury, numbered, retry, settle
from engine.bus.conformance.promises import keeps, needs


class DeadLetterConformance(TransportTests):
    @keeps("K20")
    def test_a_dead_message_lies_once_in_the_dead_letters_with_its_record(self, bench: Workbench) -> None:
        bench.publish(b"poison")
        receiver = bench.receiver()
        delivery = bench.take_one(receiver)

        assert bury(receiver, delivery, b'{"cause":"no such hotel"}')

        (letter,) = bench.admin.dead(bench.topic, bench.group)
        assert (letter.body, letter.record) == (b"poison", b'{"cause":"no such hotel"}')
        assert letter.position == delivery.position

    def test_a_dead_message_is_settled(self, bench: Workbench) -> None:
        bench.publish(b"poison")
        receiver = bench.receiver()
        delivery = bench.take_one(receiver)
        bury(receiver, delivery)

        bench.clock.advance(3 * self.lease_ms / 1000)

        assert receiver.receive(1, 0) == []
        assert settle(receiver, [delivery]) == [False]
        assert bury(receiver, delivery) is False
        assert len(bench.admin.dead(bench.topic, bench.group)) == 1

    @keeps("K20")
    def test_a_message_may_die_after_attempts(self, bench: Workbench) -> None:
        bench.publish(b"poison")
        receiver = bench.receiver()
        for _ in range(3):
            retry(receiver, bench.take_one(receiver))

        assert bury(receiver, bench.take_one(receiver))

        assert len(bench.admin.dead(bench.topic, bench.group)) == 1
        assert bench.admin.lag(bench.topic, bench.group).unsettled == 0

    def test_dead_letters_belong_to_their_group(self, bench: Workbench) -> None:
        bench.admin.create_group(bench.topic, "others")
        bench.publish(b"x")
        receiver = bench.receiver()
        bury(receiver, bench.take_one(receiver))

        assert bench.admin.dead(bench.topic, "others") == []
        assert bodies(bench.drain(bench.receiver(group="others"))) == [b"x"]

    def test_the_oldest_come_first_and_stay_until_they_are_forgotten(self, bench: Workbench) -> None:
        bench.publish(*numbered(5))
        receiver = bench.receiver()
        buried = bench.take(receiver, 5)
        for delivery in buried:
            bury(receiver, delivery)

        # When the first two have found another home
        first = bench.admin.dead(bench.topic, bench.group, limit=2)
        assert [letter.body for letter in first] == bodies(buried[:2])
        assert len(bench.admin.dead(bench.topic, bench.group)) == 5
        entries = [letter.entry for letter in first]
        assert bench.admin.forget_dead(bench.topic, bench.group, entries) == 2

        # Then the others are left
        left = bench.admin.dead(bench.topic, bench.group)
        assert [letter.body for letter in left] == bodies(buried[2:])
        assert bench.admin.lag(bench.topic, bench.group).dead == 3

    def test_forgetting_twice_counts_once(self, bench: Workbench) -> None:
        bench.publish(b"x")
        receiver = bench.receiver()
        bury(receiver, bench.take_one(receiver))
        (letter,) = bench.admin.dead(bench.topic, bench.group)

        assert bench.admin.forget_dead(bench.topic, bench.group, [letter.entry]) == 1
        assert bench.admin.forget_dead(bench.topic, bench.group, [letter.entry]) == 0
        assert bench.admin.forget_dead(bench.topic, bench.group, []) == 0

    @needs("browse")
    def test_dead_letters_outlive_the_message_in_the_topic(self, bench: Workbench) -> None:
        bench.publish(b"poison")
        receiver = bench.receiver()
        bury(receiver, bench.take_one(receiver))

        assert bench.admin.trim(bench.topic, older_than_ms=None, keep_at_most=0).removed == 1

        assert [letter.body for letter in bench.admin.dead(bench.topic, bench.group)] == [b"poison"]
