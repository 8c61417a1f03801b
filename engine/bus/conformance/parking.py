"""Keys that are set aside: what is parked, what comes of it again, and what a decision does."""

from __future__ import annotations

import pytest

from engine.bus.conformance.base import numbered, settle
from engine.bus.conformance.partitions import PARTITIONS, SEAT_MS, OnPartitions, Partitions, PassTime, numbers, park
from engine.bus.conformance.promises import keeps, needs
from engine.bus.partitions import PartitionedReceiver
from engine.bus.transport import Delivery, Priority, Settlement, Verdict
from engine.core.errors import BadInput

#: More than any consumer has in hand; a store that looks no further hands out its leases that ran out too late.
VERY_MANY = 6_000
#: The most that one read is asked for.
READ = 500


def take_all(receiver: PartitionedReceiver, number: int) -> list[Delivery]:
    """The next ``number`` deliveries, in as many reads as it takes."""
    taken: list[Delivery] = []
    while len(taken) < number:
        taken += (found := receiver.receive(min(READ, number - len(taken)), 1))
        assert found
    return taken


@keeps("K28")
@needs("partitions")
class ParkingConformance(OnPartitions):
    """For transports that declare ``partitions``."""

    @keeps("K5")
    def test_a_parked_key_stays_aside_until_it_is_unparked_and_comes_back_in_order(self, parts: Partitions) -> None:
        one = parts.consumer("one")
        one.turn(sit=True)
        positions = parts.publish(*numbered(4), partition=1)
        taken = one.receive(10, 1)
        assert park(one, taken[0], "a", b'{"cause":"poison"}')
        assert park(one, taken[2], "a")
        assert park(one, taken[1], "a")
        assert settle(one, taken[3:]) == [True]
        assert one.is_parked(1, "a")
        assert one.receive(10, 0) == []
        (parked,) = parts.transport.parked(parts.topic, parts.group)
        assert (parked.key, parked.partition, parked.position, parked.messages) == ("a", 1, positions[0], 3)
        assert parked.record == b'{"cause":"poison"}'
        aside = parts.transport.set_aside(parts.topic, parts.group, "a")
        assert [stored.position for stored in aside] == positions[:3]
        lag = parts.bench.admin.lag(parts.topic, parts.group)
        assert (lag.parked, lag.unsettled, lag.in_flight, lag.retrying) == (3, 3, 0, 0)
        decided = parts.transport.unpark(parts.topic, parts.group, "a", "retry")
        assert decided is not None
        assert (decided.messages, decided.head) == (3, aside[0])
        again = one.receive(10, 1)
        assert numbers(again) == [0, 1, 2]
        assert [delivery.attempt for delivery in again] == [1, 1, 1]
        assert not one.is_parked(1, "a")

    def test_only_what_is_of_a_parked_key_is_set_aside(self, parts: Partitions) -> None:
        one = parts.consumer("one")
        one.turn(sit=True)
        parts.publish(*numbered(2), partition=0)
        first, second = one.receive(10, 1)
        # Not parked: it is put back, and that is said.
        assert not park(one, second, "a")
        assert not park(one, first, "a")
        assert numbers(one.receive(10, 1)) == [0, 1]

    def test_a_head_is_skipped_or_buried(self, parts: Partitions) -> None:
        one = parts.consumer("one")
        one.turn(sit=True)
        for key, head, partition in (("a", "skip", 0), ("b", "dead", 2)):
            positions = parts.publish(*numbered(2), partition=partition)
            first, second = one.receive(10, 1)
            assert park(one, first, key, b"{}")
            assert park(one, second, key)
            decided = parts.transport.unpark(parts.topic, parts.group, key, head)
            assert decided is not None
            assert decided.messages == 1
            again = one.receive(10, 1)
            assert [delivery.position for delivery in again] == positions[1:]
            assert settle(one, again) == [True]
        counts = parts.bench.admin.counts(parts.topic, parts.group)
        assert (counts["skipped"], counts["dead"], counts["settled"]) == (1, 1, 2)
        (letter,) = parts.bench.admin.dead(parts.topic, parts.group)
        assert (letter.position, letter.record) == (positions[0], b"{}")
        assert parts.bench.admin.lag(parts.topic, parts.group).unsettled == 0

    @pytest.mark.parametrize("decision", ["retry", "skip", "dead"])
    def test_the_head_is_the_one_that_failed_though_another_of_its_key_lies_before_it(
        self, parts: Partitions, decision: str
    ) -> None:
        one = parts.consumer("one")
        one.turn(sit=True)
        positions = parts.publish(*numbered(3), partition=1)
        # Its turn was over when it was tried again, as where failed ones let others pass.
        late, head, next_ = one.receive(10, 1)
        assert park(one, head, "a", b"{}")
        assert park(one, late, "a")
        assert park(one, next_, "a")
        (parked,) = parts.transport.parked(parts.topic, parts.group)
        assert (parked.position, parked.messages) == (positions[1], 3)
        aside = [stored.position for stored in parts.transport.set_aside(parts.topic, parts.group, "a")]
        assert aside == [positions[1], positions[0], positions[2]]
        decided = parts.transport.unpark(parts.topic, parts.group, "a", decision)
        assert decided is not None
        assert decided.head is not None
        assert decided.head.position == positions[1]
        assert numbers(one.receive(10, 1)) == ([0, 1, 2] if decision == "retry" else [0, 2])
        letters = parts.bench.admin.dead(parts.topic, parts.group)
        assert [letter.position for letter in letters] == (positions[1:2] if decision == "dead" else [])

    def test_a_key_parked_in_two_partitions_is_decided_about_in_each(self, parts: Partitions) -> None:
        one = parts.consumer("one")
        one.turn(sit=True)
        positions = [parts.publish(*numbered(2, 10 * partition), partition=partition)[0] for partition in (1, 3)]
        for each in one.receive(10, 1):
            assert park(one, each, "a", b"{}" if each.position in positions else b"")
        found = parts.transport.parked(parts.topic, parts.group)
        assert [(each.partition, each.position, each.messages) for each in found] == [
            (1, positions[0], 2),
            (3, positions[1], 2),
        ]
        assert parts.transport.unpark(parts.topic, parts.group, "a", "skip", 2) is None
        decided = parts.transport.unpark(parts.topic, parts.group, "a", "skip", 3)
        assert decided is not None
        assert (decided.partition, decided.messages) == (3, 1)
        assert numbers(one.receive(10, 1)) == [31]
        assert one.is_parked(1, "a")
        assert [each.partition for each in parts.transport.parked(parts.topic, parts.group)] == [1]

    def test_one_parked_key_is_found_however_many_there_are(self, parts: Partitions) -> None:
        one = parts.consumer("one")
        one.turn(sit=True)
        parts.publish(*numbered(3), partition=1)
        for key, each in zip("abc", one.receive(10, 1), strict=True):
            assert park(one, each, key, b"{}")
        listed = parts.transport.parked(parts.topic, parts.group)
        assert [each.key for each in listed] == ["a", "b", "c"]
        assert parts.transport.parked(parts.topic, parts.group, 1) == listed[:1]
        assert parts.transport.parked(parts.topic, parts.group, 1, "c") == listed[2:]
        assert parts.transport.parked(parts.topic, parts.group, 1, "d") == []
        for one_of_them in listed:
            assert parts.transport.parked(parts.topic, parts.group, 1, head=one_of_them.position) == [one_of_them]
        for nowhere in ("c", "", listed[0].position + "0"):
            assert parts.transport.parked(parts.topic, parts.group, head=nowhere) == []

    @needs("priority")
    @pytest.mark.parametrize("priority", [Priority.HIGH, Priority.LOW])
    @pytest.mark.parametrize("decision", ["retry", "skip", "dead"])
    def test_what_has_another_priority_is_parked_and_decided_about_like_the_rest(
        self, parts: Partitions, priority: Priority, decision: str
    ) -> None:
        """A producer of ours gives an ordered message none; who writes into the store may."""
        one = parts.consumer("one")
        one.turn(sit=True)
        positions = [outcome.position for outcome in parts.bench.publish(*numbered(3), priority=priority)]
        taken = one.receive(10, 1)
        assert [(each.position, each.priority) for each in taken] == [(position, priority) for position in positions]
        for each in taken:
            assert park(one, each, "a", b"{}" if each is taken[0] else b"")
        (parked,) = parts.transport.parked(parts.topic, parts.group)
        assert (parked.position, parked.messages) == (positions[0], 3)
        aside = parts.transport.set_aside(parts.topic, parts.group, "a")
        assert [(stored.position, stored.body) for stored in aside] == list(zip(positions, numbered(3), strict=True))
        decided = parts.transport.unpark(parts.topic, parts.group, "a", decision)
        assert decided is not None
        assert decided.head == aside[0]
        again = one.receive(10, 1)
        assert numbers(again) == ([0, 1, 2] if decision == "retry" else [1, 2])
        letters = parts.bench.admin.dead(parts.topic, parts.group)
        assert [letter.position for letter in letters] == (positions[:1] if decision == "dead" else [])
        assert all(settle(one, again))
        assert parts.bench.admin.lag(parts.topic, parts.group).unsettled == 0

    def test_what_nobody_parked_cannot_be_unparked(self, parts: Partitions) -> None:
        assert parts.transport.unpark(parts.topic, parts.group, "a", "retry") is None
        with pytest.raises(BadInput):
            parts.transport.unpark(parts.topic, parts.group, "a", "burn")

    @keeps("K41")
    @pytest.mark.parametrize("decision", ["retry", "skip", "dead"])
    @pytest.mark.parametrize("meanwhile", ["retry", "skip"])
    def test_a_decision_ends_the_parking_that_it_was_made_about_and_no_later_one(
        self, parts: Partitions, decision: str, meanwhile: str
    ) -> None:
        one = parts.consumer("one")
        one.turn(sit=True)
        parts.publish(*numbered(3), partition=1)
        head, *behind = one.receive(10, 1)
        # Of the next head the same is told, as of one that fails alike.
        first, second = b'{"at":1}', b'{"at":2}' if meanwhile == "retry" else b'{"at":1}'
        assert park(one, head, "a", first)
        for each in behind:
            assert park(one, each, "a")
        (seen,) = parts.transport.parked(parts.topic, parts.group)
        assert parts.transport.unpark(parts.topic, parts.group, "a", meanwhile, seen=seen) is not None
        assert parts.transport.unpark(parts.topic, parts.group, "a", decision, seen=seen) is None
        # Where it lay, or the one behind it.
        again, *rest = one.receive(10, 1)
        assert (again.position == seen.position) == (meanwhile == "retry")
        assert park(one, again, "a", second)
        for each in rest:
            assert park(one, each, "a")
        (now,) = parts.transport.parked(parts.topic, parts.group)
        assert parts.transport.unpark(parts.topic, parts.group, "a", decision, 1, seen=seen) is None
        assert parts.transport.parked(parts.topic, parts.group) == [now]
        assert one.receive(10, 0) == []
        assert parts.bench.admin.dead(parts.topic, parts.group) == []
        decided = parts.transport.unpark(parts.topic, parts.group, "a", decision, seen=now)
        assert decided is not None
        assert decided.head is not None
        assert decided.head.position == now.position

    def test_parked_keys_are_known_to_the_next_owner(self, parts: Partitions) -> None:
        one, two = parts.consumer("one"), parts.consumer("two")
        one.turn(sit=True)
        parts.publish(*numbered(2), partition=0)
        taken = one.receive(10, 1)
        assert park(one, taken[0], "a", b"{}")
        assert settle(one, taken[1:]) == [True]
        one.turn(sit=False)
        one.give_up(range(PARTITIONS))
        two.turn(sit=True)
        parts.publish(b"m2", partition=0)
        assert numbers(two.receive(10, 1)) == [2]
        assert two.is_parked(0, "a")
        assert not two.is_parked(1, "a")

    def test_what_was_in_hand_comes_before_what_was_unparked_behind_it_however_much_that_is(
        self, parts: Partitions, pass_time: PassTime
    ) -> None:
        one, two = parts.consumer("one"), parts.consumer("two")
        one.turn(sit=True)
        parts.publish(*numbered(VERY_MANY), partition=1)
        head, *rest = take_all(one, VERY_MANY)
        assert park(one, head, "a", b"{}")
        assert all(one.settle([Settlement(each.receipt, Verdict.PARK, key="a") for each in rest]))
        decided = parts.transport.unpark(parts.topic, parts.group, "a", "retry")
        assert decided is not None
        assert decided.messages == VERY_MANY
        assert numbers(take_all(one, READ + 200)) == list(range(READ + 200))
        # Its owner vanishes with what it has.
        pass_time((SEAT_MS + parts.bench.lease_ms) / 1000 + 1)
        two.turn(sit=True)
        assert numbers(take_all(two, VERY_MANY)) == list(range(VERY_MANY))
