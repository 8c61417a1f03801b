"""A dead message is kept exactly once, until somebody has taken it over."""

from __future__ import annotations

import pytest

from engine.bus import bounds
from engine.bus.conformance.base import TransportTests, Workbench, bodies, bury, numbered, retry, settle
from engine.bus.conformance.promises import keeps, needs
from engine.bus.many_groups import with_dead


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

    def test_large_ones_come_few_at_a_time_and_all_in_order(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bounds, "DEAD_BYTES", 750_000)
        # Large ones behind small ones, by which nobody could tell, and one that is larger than there is room for
        weights = [10] * 40 + [300_000] * 5 + [10, 900_000, 10]
        bench.publish(*(b"%02d" % number + b"x" * weight for number, weight in enumerate(weights)))
        receiver = bench.receiver()
        buried = bench.take(receiver, len(weights))
        for delivery in buried:
            bury(receiver, delivery)

        told: list[bytes] = []
        while letters := bench.admin.dead(bench.topic, bench.group):
            told += [letter.body[:2] for letter in letters]
            assert len(letters) == 1 or sum(len(letter.body) for letter in letters) <= bounds.DEAD_BYTES
            bench.admin.forget_dead(bench.topic, bench.group, [letter.entry for letter in letters])

        assert told == [delivery.body[:2] for delivery in buried]

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

    @keeps("K45")
    def test_dead_letters_outlive_their_group(self, bench: Workbench) -> None:
        bench.publish(*numbered(2))
        receiver = bench.receiver()
        first, second = bench.take(receiver, 2)
        bury(receiver, first)

        # When the group goes while a letter lies there and a message is in hand
        bench.admin.delete_group(bench.topic, bench.group)

        # Then nothing dies in it any more, and what did is found and taken over
        assert bury(receiver, second) is False
        (letter,) = bench.admin.dead(bench.topic, bench.group)
        assert letter.body == first.body
        assert with_dead(bench.admin, [(bench.topic, bench.group)]) == [(bench.topic, bench.group)]
        assert bench.admin.groups(bench.topic) == []
        # Also after another deletion
        bench.admin.delete_group(bench.topic, bench.group)
        assert bench.admin.forget_dead(bench.topic, bench.group, [letter.entry]) == 1
        assert bench.admin.dead(bench.topic, bench.group) == []

    @keeps("K45")
    def test_what_a_group_left_is_not_mistaken_for_what_dies_in_the_next_of_its_name(self, bench: Workbench) -> None:
        bench.publish(b"old")
        receiver = bench.receiver()
        bury(receiver, bench.take_one(receiver))
        (old,) = bench.admin.dead(bench.topic, bench.group)
        bench.admin.delete_group(bench.topic, bench.group)

        bench.admin.create_group(bench.topic, bench.group, "end")
        bench.publish(b"new")
        receiver = bench.receiver("two")
        bury(receiver, bench.take_one(receiver))

        assert [letter.body for letter in bench.admin.dead(bench.topic, bench.group)] == [b"old", b"new"]
        assert bench.admin.forget_dead(bench.topic, bench.group, [old.entry]) == 1
        assert [letter.body for letter in bench.admin.dead(bench.topic, bench.group)] == [b"new"]

    @keeps("K45")
    def test_dead_letters_outlive_their_topic(self, bench: Workbench) -> None:
        bench.publish(b"poison")
        receiver = bench.receiver()
        bury(receiver, bench.take_one(receiver))

        bench.admin.delete_topic(bench.topic)

        (letter,) = bench.admin.dead(bench.topic, bench.group)
        assert letter.body == b"poison"
        assert bench.admin.forget_dead(bench.topic, bench.group, [letter.entry]) == 1
