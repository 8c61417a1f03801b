"""A topic in partitions: one owner each, at one time, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil

import pytest

from engine.bus.conformance.base import TransportTests, Workbench, bodies, bury, numbered, retry, settle
from engine.bus.conformance.promises import keeps, needs
from engine.bus.errors import GroupLost
from engine.bus.partitions import Partitioned, PartitionedReceiver, partition_of
from engine.bus.transport import Attempt, Delivery, Outgoing, Settlement, Transport, Verdict
from engine.core.errors import BadInput
from engine.core.ids import new_id

PARTITIONS = 4
SEAT_MS = 10_000

PassTime = Callable[[float], None]


class Partitions:
    """The workbench's topic in four parts, and the verbs of those who read them."""

    def __init__(self, bench: Workbench, transport: Partitioned) -> None:
        self.bench = bench
        self.transport = transport
        self.topic, self.group = bench.topic, bench.group
        transport.set_partitions(bench.topic, PARTITIONS)
        self._receivers: list[PartitionedReceiver] = []

    def consumer(self, name: str) -> PartitionedReceiver:
        lease_ms, seat_ms = self.bench.lease_ms, SEAT_MS
        made = self.transport.partitioned_receiver(
            self.topic, self.group, consumer=name, lease_ms=lease_ms, partitions=PARTITIONS, seat_ms=seat_ms
        )
        self._receivers.append(made)
        return made

    def publish(self, *texts: bytes, partition: int) -> list[str]:
        """Into one partition; their positions."""
        batch = [Outgoing(new_id(self.bench.clock.now_ms()), text, partition=partition) for text in texts]
        return [outcome.position for outcome in self.bench.transport.publish(self.topic, batch)]

    def owners(self) -> list[tuple[str, int]]:
        return [(owned.consumer, owned.epoch) for owned in self.transport.owners(self.topic, self.group)]

    def close(self) -> None:
        for receiver in self._receivers:
            receiver.close()


def park(receiver: PartitionedReceiver, delivery: Delivery, key: str, record: bytes = b"") -> bool:
    """Set one aside; with a record it is the head."""
    return receiver.settle([Settlement(delivery.receipt, Verdict.PARK, dead=record, key=key)])[0]


def numbers(deliveries: Sequence[Delivery]) -> list[int]:
    return [int(delivery.body[1:]) for delivery in deliveries]


class OnPartitions(TransportTests):
    """What tests of transports that declare ``partitions`` stand on."""

    @pytest.fixture
    def parts(self, bench: Workbench, transport: Transport) -> Iterator[Partitions]:
        assert isinstance(transport, Partitioned)
        made = Partitions(bench, transport)
        yield made
        made.close()


@keeps("K28")
@needs("partitions")
class PartitionConformance(OnPartitions):
    """For transports that declare ``partitions``."""

    # Topics

    def test_a_key_has_the_same_partition_everywhere(self) -> None:
        # CRC-32 is part of the wire format: these numbers must never change.
        assert [partition_of(key, "", 8) for key in ("hotel-1", "hotel-2", "Zürich", "a" * 200)] == [4, 6, 6, 0]
        assert partition_of("", "01K9", 8) == partition_of("01K9", "", 8)
        assert {partition_of(f"k{n}", "", 4) for n in range(50)} == {0, 1, 2, 3}
        assert partition_of("hotel-1", "", 1) == 0

    def test_partitions_are_counted_and_never_become_fewer(self, parts: Partitions) -> None:
        assert parts.transport.partitions(parts.topic) == PARTITIONS
        assert parts.transport.partitions(parts.bench.make_topic()) == 1
        parts.transport.set_partitions(parts.topic, PARTITIONS)
        with pytest.raises(BadInput) as refused:
            parts.transport.set_partitions(parts.topic, PARTITIONS - 1)
        assert refused.value.field == "partitions"

    def test_admin_sees_all_partitions_as_one_topic(self, parts: Partitions, pass_time: PassTime) -> None:
        admin, topic, group = parts.bench.admin, parts.topic, parts.group
        positions = []
        for index in range(6):
            positions += parts.publish(b"m%d" % index, partition=index % 3)
            pass_time(0.01)
        assert len(set(positions)) == 6
        assert admin.depth(topic).messages == 6
        assert admin.lag(topic, group).waiting == 6
        assert [stored.position for stored in admin.browse(topic).entries] == positions
        backwards = admin.browse(topic, newest_first=True, limit=4)
        assert [stored.position for stored in backwards.entries] == positions[:1:-1]
        rest = admin.browse(topic, newest_first=True, after=backwards.next_position)
        assert [stored.position for stored in rest.entries] == positions[1::-1]
        for index, position in enumerate(positions):
            stored = admin.read(topic, position)
            assert stored is not None
            assert stored.body == b"m%d" % index
        admin.seek(topic, group, positions[3])
        assert admin.lag(topic, group).waiting == 2
        assert [owned.unsettled for owned in parts.transport.owners(topic, group)] == [0, 1, 1, 0]
        assert admin.counts(topic)["published"] == 6

    def test_a_checkpoint_leads_back_to_the_same_place_in_every_partition(self, parts: Partitions) -> None:
        admin = parts.bench.admin
        reader = parts.consumer("one")
        reader.turn(sit=True)
        for partition in range(PARTITIONS):
            parts.publish(*numbered(3), partition=partition)
        taken = reader.receive(100, 1)
        assert len(taken) == 12
        keep = [delivery for delivery in taken if delivery.partition == 2][1:]
        assert all(settle(reader, [delivery for delivery in taken if delivery not in keep]))
        checkpoint = admin.checkpoint(parts.topic, parts.group)
        admin.create_group(parts.topic, "later", checkpoint)
        assert [owned.unsettled for owned in parts.transport.owners(parts.topic, "later")] == [0, 0, 2, 0]
        admin.seek(parts.topic, parts.group, checkpoint)
        assert admin.lag(parts.topic, parts.group).waiting == 2

    def test_pause_and_dead_letters_reach_every_partition(self, parts: Partitions) -> None:
        admin = parts.bench.admin
        reader = parts.consumer("one")
        reader.turn(sit=True)
        admin.pause(parts.topic, parts.group)
        (position,) = parts.publish(b"m0", partition=3)
        assert reader.receive(10, 0) == []
        admin.resume(parts.topic, parts.group)
        (delivery,) = reader.receive(10, 1)
        assert (delivery.position, delivery.partition) == (position, 3)
        assert bury(reader, delivery)
        (letter,) = admin.dead(parts.topic, parts.group)
        assert (letter.position, letter.body) == (position, b"m0")
        assert admin.lag(parts.topic, parts.group).dead == 1
        assert admin.forget_dead(parts.topic, parts.group, [letter.entry]) == 1
        assert admin.dead(parts.topic, parts.group) == []
        assert admin.counts(parts.topic, parts.group)["dead"] == 1

    def test_dead_letters_of_every_partition_outlive_their_group(self, parts: Partitions) -> None:
        admin = parts.bench.admin
        reader = parts.consumer("one")
        reader.turn(sit=True)
        parts.publish(b"m1", partition=1)
        parts.publish(b"m3", partition=3)
        for delivery in parts.bench.take(reader, 2):
            assert bury(reader, delivery)
        admin.delete_group(parts.topic, parts.group)
        letters = admin.dead(parts.topic, parts.group)
        assert sorted(letter.body for letter in letters) == [b"m1", b"m3"]
        assert admin.forget_dead(parts.topic, parts.group, [letter.entry for letter in letters]) == 2
        assert admin.dead(parts.topic, parts.group) == []

    def test_retention_looks_at_all_partitions_together(self, parts: Partitions, pass_time: PassTime) -> None:
        admin = parts.bench.admin
        admin.delete_group(parts.topic, parts.group)
        positions = []
        for index in range(8):
            positions += parts.publish(b"m%d" % index, partition=index % PARTITIONS)
            pass_time(0.01)
        assert admin.trim(parts.topic, older_than_ms=None, keep_at_most=3).removed == 5
        assert [stored.position for stored in admin.browse(parts.topic).entries] == positions[5:]

    def test_new_partitions_bring_every_group_with_them(self, parts: Partitions) -> None:
        admin = parts.bench.admin
        topic = parts.bench.make_topic()
        admin.create_group(topic, "held")
        admin.pause(topic, "held")
        parts.transport.set_partitions(topic, 2)
        assert len(parts.transport.owners(topic, "held")) == 2
        reader = parts.bench.transport.receiver(topic, "held", consumer="one", lease_ms=1_000, partition=1)
        parts.bench.transport.publish(topic, [Outgoing("a", b"m0", partition=1)])
        assert reader.receive(1, 0) == []
        admin.resume(topic, "held")
        assert bodies(reader.receive(1, 1)) == [b"m0"]
        reader.close()

    def test_a_group_made_at_a_position_begins_behind_it_in_every_partition(
        self, parts: Partitions, pass_time: PassTime
    ) -> None:
        admin = parts.bench.admin
        positions = []
        for index in range(6):
            positions += parts.publish(b"m%d" % index, partition=index % 2)
            pass_time(0.01)
        admin.create_group(parts.topic, "late", positions[-2])
        assert [owned.unsettled for owned in parts.transport.owners(parts.topic, "late")] == [0, 1, 0, 0]

    # Owners

    @keeps("K9")
    def test_one_consumer_has_everything_and_two_have_half_each(self, parts: Partitions) -> None:
        one, two = parts.consumer("one"), parts.consumer("two")
        assert one.turn(sit=True).owned == dict.fromkeys(range(PARTITIONS), 1)
        # The second finds nothing free; the first learns that it has too many.
        assert two.turn(sit=True).owned == {}
        turn = one.turn(sit=True)
        assert (turn.members, turn.share, len(turn.owned)) == (2, 2, 4)
        one.give_up([2, 3])
        assert two.turn(sit=True).owned == {2: 2, 3: 2}
        assert parts.owners() == [("one", 1), ("one", 1), ("two", 2), ("two", 2)]

    def test_each_reads_only_what_it_owns(self, parts: Partitions) -> None:
        one, two = parts.consumer("one"), parts.consumer("two")
        for partition in range(PARTITIONS):
            parts.publish(b"m%d" % partition, partition=partition)
        one.turn(sit=True)
        two.turn(sit=True)
        one.turn(sit=True)
        one.give_up([0, 1])
        two.turn(sit=True)
        assert sorted(numbers(one.receive(10, 1))) == [2, 3]
        assert sorted(numbers(two.receive(10, 1))) == [0, 1]
        assert parts.consumer("three").receive(10, 0) == []

    def test_what_rests_or_is_kept_off_is_read_no_more_and_can_be_settled(self, parts: Partitions) -> None:
        one = parts.consumer("one")
        one.turn(sit=True)
        parts.publish(b"m0", partition=1)
        taken = one.receive(10, 1)
        one.rest(frozenset({1, 2}))
        for n in (1, 2):
            parts.publish(b"m%d" % n, partition=n)
        assert one.receive(10, 0) == []
        one.keep_off(1)
        one.rest(frozenset())
        assert numbers(one.receive(10, 1)) == [2]
        assert settle(one, taken) == [True]

    def test_who_leaves_frees_its_share_at_once_and_who_vanishes_after_its_time(
        self, parts: Partitions, pass_time: PassTime
    ) -> None:
        one, two, three = parts.consumer("one"), parts.consumer("two"), parts.consumer("three")
        one.turn(sit=True)
        assert one.turn(sit=False).share == 0
        one.give_up(range(PARTITIONS))
        assert len(two.turn(sit=True).owned) == PARTITIONS
        pass_time(SEAT_MS / 1000 - 1)
        assert three.turn(sit=True).owned == {}
        pass_time(2)
        # Two has not been heard of for longer than a seat lasts.
        turn = three.turn(sit=True)
        assert (turn.members, turn.owned) == (1, dict.fromkeys(range(PARTITIONS), 3))

    def test_an_old_epoch_can_neither_read_nor_settle_nor_extend(self, parts: Partitions, pass_time: PassTime) -> None:
        one, two = parts.consumer("one"), parts.consumer("two")
        one.turn(sit=True)
        parts.publish(*numbered(4), partition=0)
        taken = one.receive(10, 1)
        pass_time(SEAT_MS / 1000 + 1)
        assert two.turn(sit=True).owned[0] == 2
        parts.publish(b"m4", partition=0)
        assert one.receive(10, 0) == []
        assert one.extend([delivery.receipt for delivery in taken]) == [False] * 4
        assert settle(one, taken[:1]) == [False]
        assert not retry(one, taken[1])
        assert not bury(one, taken[2])
        assert not park(one, taken[3], "a", b"{}")
        assert parts.bench.admin.lag(parts.topic, parts.group).unsettled == 5
        # Once nothing is held back for the sake of its leases, the epoch alone keeps it from reading.
        for _ in range(ceil(2 * parts.bench.lease_ms / SEAT_MS) + 1):
            pass_time(SEAT_MS / 2000)
            two.turn(sit=True)
        assert one.receive(10, 0) == []
        # The old owner learns of it, and is no owner any more.
        assert one.turn(sit=True).owned == {}

    def test_a_new_owner_waits_for_what_the_one_before_has_in_hand_and_gets_it_first(
        self, parts: Partitions, pass_time: PassTime
    ) -> None:
        one, two = parts.consumer("one"), parts.consumer("two")
        one.turn(sit=True)
        parts.publish(*numbered(3), partition=0)
        assert len(one.receive(10, 1)) == 3
        pass_time(SEAT_MS / 1000 + 1)
        two.turn(sit=True)
        parts.publish(b"m3", partition=0)
        assert two.receive(10, 0) == []
        pass_time(parts.bench.lease_ms / 1000)
        taken = two.receive(10, 1)
        assert numbers(taken) == [0, 1, 2, 3]
        assert [delivery.attempt for delivery in taken] == [2, 2, 2, 1]

    def test_what_is_due_again_comes_in_the_order_of_publishing(self, parts: Partitions, pass_time: PassTime) -> None:
        one = parts.consumer("one")
        one.turn(sit=True)
        parts.publish(*numbered(4), partition=0)
        taken = one.receive(10, 1)
        assert settle(one, [taken[3], taken[1]], Verdict.RELEASE) == [True, True]
        assert retry(one, taken[2], after_ms=500)
        pass_time(parts.bench.lease_ms / 1000 + 1)
        one.turn(sit=True)
        parts.publish(b"m4", partition=0)
        assert numbers(one.receive(2, 1)) == [0, 1]
        assert numbers(one.receive(10, 1)) == [2, 3, 4]

    @keeps("K19")
    def test_an_attempt_that_was_announced_is_counted_and_what_only_waited_is_not(
        self, parts: Partitions, pass_time: PassTime
    ) -> None:
        def next_owner(name: str) -> tuple[PartitionedReceiver, list[Delivery]]:
            """Has everything, once who had it before has vanished."""
            pass_time((SEAT_MS + parts.bench.lease_ms) / 1000 + 1)
            made = parts.consumer(name)
            made.turn(sit=True)
            return made, made.receive(10, 1)

        def begin(owner: PartitionedReceiver, delivery: Delivery, number: int, failed: Attempt | None = None) -> bool:
            announced = Settlement(delivery.receipt, Verdict.BEGIN, attempt=failed, number=number)
            # Twice, as after an answer that was lost.
            return owner.settle([announced]) == owner.settle([announced]) == [True]

        parts.publish(*numbered(2), partition=0)
        # Two attempts of the first have failed here, and the third is under way.
        one, (head, _) = next_owner("one")
        failures = [Attempt(number, 1_790_000_000_000, 1_500, "one", f"boom {number}") for number in (1, 2)]
        assert begin(one, head, 2, failures[0])
        assert begin(one, head, 3, failures[1])
        assert one.extend([head.receipt]) == [True]

        # Nobody knows whether the second was tried.
        _, (head, second) = next_owner("two")
        assert (head.attempt, second.attempt) == (4, 2)
        assert [past.error for past in head.history] == ["boom 1", "boom 2", "lease ran out"]

        # Neither was: none is said to begin.
        three, (head, second) = next_owner("three")
        assert (head.attempt, second.attempt) == (4, 2)
        assert begin(three, second, 2)
        assert settle(three, [head, second], Verdict.RELEASE) == [True, True]

        # What was begun counts, though its holder could not say what came of it.
        head, second = three.receive(10, 1)
        assert (head.attempt, second.attempt) == (4, 3)
        assert begin(three, head, 4)
        assert retry(three, head)
        (again,) = three.receive(10, 1)
        assert (again.attempt, len(again.history)) == (5, 4)
        assert not begin(three, head, 5)
        assert settle(three, [again, second]) == [True, True]

    @keeps("K19")
    @pytest.mark.parametrize("verdict", [Verdict.RELEASE, Verdict.PARK])
    def test_what_goes_back_says_once_which_attempt_failed_here(self, parts: Partitions, verdict: Verdict) -> None:
        one = parts.consumer("one")
        one.turn(sit=True)
        parts.publish(b"m0", partition=0)
        (head,) = one.receive(10, 1)
        failed = [Attempt(number, 1_790_000_000_000, 1_500, "one", f"boom {number}") for number in (1, 2)]
        for number in (2, 3):
            told = Settlement(head.receipt, verdict, attempt=failed[number - 2], key="a", number=number)
            # A key that is not parked is put back all the same; a second time it is not ours any more.
            assert one.settle([told]) == [verdict is Verdict.RELEASE]
            assert one.settle([told]) == [False]
            (head,) = one.receive(10, 1)
            assert (head.attempt, head.history) == (number, tuple(failed[: number - 1]))
        # What the store has counted already is not counted again.
        one.settle([Settlement(head.receipt, verdict, attempt=failed[1], key="a", number=3)])
        (head,) = one.receive(10, 1)
        assert (head.attempt, len(head.history)) == (3, 2)
        assert settle(one, [head]) == [True]

    def test_settled_is_settled_whoever_comes_next(self, parts: Partitions) -> None:
        one, two = parts.consumer("one"), parts.consumer("two")
        one.turn(sit=True)
        parts.publish(*numbered(2), partition=0)
        assert settle(one, one.receive(10, 1)) == [True, True]
        one.turn(sit=False)
        one.give_up(range(PARTITIONS))
        two.turn(sit=True)
        assert two.receive(10, 0) == []

    def test_a_group_that_is_not_there_is_said_to_be_lost(self, parts: Partitions) -> None:
        parts.bench.admin.delete_group(parts.topic, parts.group)
        with pytest.raises(GroupLost):
            parts.consumer("one").turn(sit=True)
