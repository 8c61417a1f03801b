"""The store has done what it was asked, and its answer is lost: at each reply in turn, for every verb of a consumer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import count
from typing import Any, TypeVar

import pytest

from engine.bus.conformance.base import TransportTests, Workbench, bodies, settle
from engine.bus.conformance.ordering import Journal
from engine.bus.conformance.outages import NOT_GIVEN
from engine.bus.conformance.promises import keeps, needs
from engine.bus.conformance.running import House, running, until
from engine.bus.consumer import Consumer
from engine.bus.partitions import Partitioned, PartitionedReceiver
from engine.bus.policy import RetryPolicy
from engine.bus.transport import Attempt, Delivery, Outgoing, Settlement, Transport, Verdict
from engine.core.errors import Unavailable

PARTITIONS = 2
SEAT_MS = 10_000
#: More replies than any call of one verb needs.
MOST_REPLIES = 40
#: How many replies to a consumer's first calls are lost in turn: those of its turn, reads, waits and settlements.
FIRST_REPLIES = 12
#: Seconds that a read waits, where messages take a while to arrive.
WAIT_S = 2.0
#: Of the messages of one key in a round: how many there are before an answer is lost, which of them fails for good, and
#: how many there are in all.
BEFORE, POISON, ALL = 3, 2, 6

Result = TypeVar("Result")
#: A block in which the reply of this number is lost, 0 for the first; it yields what tells whether that has happened.
Lose = Callable[[int], AbstractContextManager[Callable[[], bool]]]
PassTime = Callable[[float], None]

SETTLEMENTS: dict[Verdict, dict[str, Any]] = {
    Verdict.ACK: {},
    Verdict.RETRY: {"attempt": Attempt(1, 1_790_000_000_000, 1_500, "one", "boom")},
    Verdict.RELEASE: {},
    Verdict.DEAD: {"dead": b"{}"},
}


def each_reply(lose: Lose) -> Iterator[tuple[int, Callable[[Callable[[], Result]], Result | None]]]:
    """For the first reply, the second …: a number of its own, and what does something while that reply is lost.

    Up to the first that is not needed, twice over: at first a store may have much to learn that it knows later.
    """
    rounds = count()
    for _ in range(2):
        for reply in range(MOST_REPLIES):
            lost = [False]

            def attempt(act: Callable[[], Result], reply: int = reply, lost: list[bool] = lost) -> Result | None:
                with lose(reply) as happened:
                    try:
                        return act()
                    except Unavailable:
                        return None
                    finally:
                        lost[0] = happened()

            yield next(rounds), attempt
            if not lost[0]:
                assert reply, "no reply was lost"
                break
        else:
            raise AssertionError(f"{MOST_REPLIES} replies were not enough")


# What dies with its process has no wire
@keeps("K40")
@needs("durable")
class LostAnswerConformance(TransportTests):
    """Override ``lose`` where there is a wire to cut."""

    @pytest.fixture
    def lose(self) -> Lose:
        """Cuts the wire once in the block: what is asked reaches the store, and the reply of that number is lost."""
        pytest.skip(f"{NOT_GIVEN}a wire to cut")

    def test_what_was_leased_in_an_answer_that_was_lost_comes_again(
        self, bench: Workbench, lose: Lose, pass_time: PassTime
    ) -> None:
        receiver = bench.receiver()
        for number, attempt in each_reply(lose):
            bench.publish(b"m%d" % number)
            taken = attempt(lambda: receiver.receive(1, WAIT_S))
            if not taken:
                pass_time(bench.lease_ms / 1000 + 1)
                taken = bench.take(receiver, 1)
            assert bodies(taken) == [b"m%d" % number]
            assert settle(receiver, taken) == [True]
        bench.expect_all_settled()

    @pytest.mark.parametrize("verdict", SETTLEMENTS)
    def test_a_settlement_whose_answer_was_lost_is_made_once(
        self, bench: Workbench, lose: Lose, verdict: Verdict
    ) -> None:
        receiver = bench.receiver()
        for number, attempt in each_reply(lose):
            (sent,) = bench.publish(b"m%d" % number)
            delivery = bench.take_one(receiver)
            batch = [Settlement(delivery.receipt, verdict, **SETTLEMENTS[verdict])]
            answers = attempt(lambda batch=batch: receiver.settle(batch))  # type: ignore[misc]
            if answers is None:
                # What was done already may answer so.
                receiver.settle(batch)
            else:
                assert answers == [True]
            if verdict is Verdict.DEAD:
                (letter,) = bench.admin.dead(bench.topic, bench.group)
                assert (letter.body, letter.position or sent.position) == (delivery.body, delivery.position)
                assert bench.admin.forget_dead(bench.topic, bench.group, [letter.entry]) == 1
            elif verdict is not Verdict.ACK:
                again = bench.take_one(receiver)
                failures = int(verdict is Verdict.RETRY)
                assert (again.body, again.attempt, len(again.history)) == (delivery.body, 1 + failures, failures)
                assert settle(receiver, [again]) == [True]
            bench.expect_all_settled()

    def test_a_lease_whose_extension_was_not_answered_is_held_and_extended_again(
        self, bench: Workbench, lose: Lose
    ) -> None:
        receiver = bench.receiver()
        for number, attempt in each_reply(lose):
            bench.publish(b"m%d" % number)
            delivery = bench.take_one(receiver)
            answers = attempt(lambda receipt=delivery.receipt: receiver.extend([receipt]))  # type: ignore[misc]
            assert answers in (None, [True])
            assert receiver.extend([delivery.receipt]) == [True]
            assert settle(receiver, [delivery]) == [True]
        bench.expect_all_settled()

    # In order

    @pytest.fixture
    def split(self, bench: Workbench, transport: Transport) -> Partitioned:
        assert isinstance(transport, Partitioned)
        transport.set_partitions(bench.topic, PARTITIONS)
        return transport

    @pytest.fixture
    def owner(self, bench: Workbench, split: Partitioned) -> Iterator[PartitionedReceiver]:
        """Owns every partition."""
        made = split.partitioned_receiver(
            bench.topic, bench.group, consumer="one", lease_ms=bench.lease_ms, partitions=PARTITIONS, seat_ms=SEAT_MS
        )
        assert len(made.turn(sit=True).owned) == PARTITIONS
        yield made
        made.close()

    @needs("partitions")
    def test_in_order_what_was_leased_in_a_lost_answer_comes_before_anything_newer(
        self, bench: Workbench, owner: PartitionedReceiver, lose: Lose
    ) -> None:
        def publish(*texts: bytes) -> None:
            bench.transport.publish(bench.topic, [Outgoing(text.decode(), text, partition=1) for text in texts])

        publish(b"held")
        (held,) = owner.receive(10, 0)
        for number, attempt in each_reply(lose):
            texts = [b"m%d-%d" % (number, n) for n in range(3)]
            publish(*texts[:2])
            taken: list[Delivery] = attempt(lambda: owner.receive(10, 0)) or []
            publish(texts[2])
            taken += owner.receive(10, 0)
            assert [(each.body, each.attempt) for each in taken] == [(text, 1) for text in texts]
            assert settle(owner, taken) == [True] * 3
        # What was in hand all the time was nobody else's meanwhile.
        assert owner.extend([held.receipt]) == [True]
        assert settle(owner, [held]) == [True]
        bench.expect_all_settled()

    @needs("partitions")
    def test_a_key_is_parked_once_though_the_answer_was_lost_and_its_owner_knows_it(
        self, bench: Workbench, split: Partitioned, owner: PartitionedReceiver, lose: Lose
    ) -> None:
        for number, attempt in each_reply(lose):
            texts, key = [b"m%d-%d" % (number, n) for n in range(2)], f"k{number}"
            bench.transport.publish(bench.topic, [Outgoing(text.decode(), text, partition=1) for text in texts])
            head, next_ = owner.receive(10, 0)
            batch = [
                Settlement(head.receipt, Verdict.PARK, dead=b"{}", key=key),
                Settlement(next_.receipt, Verdict.PARK, key=key),
            ]
            answers = attempt(lambda batch=batch: owner.settle(batch))  # type: ignore[misc]
            if answers is None:
                # Not refused: who is would take the key for one that is not parked, and handle what comes of it.
                answers = owner.settle(batch)
            assert answers == [True, True]
            assert owner.is_parked(1, key)
            (parked,) = split.parked(bench.topic, bench.group)
            assert (parked.key, parked.messages) == (key, 2)
            decided = split.unpark(bench.topic, bench.group, key, "skip")
            assert decided is not None
            assert decided.messages == 1
            again = owner.receive(10, 0)
            assert bodies(again) == texts[1:]
            assert settle(owner, again) == [True]
        bench.expect_all_settled()

    @needs("partitions")
    def test_an_attempt_that_was_announced_in_a_lost_answer_is_counted_once(
        self, bench: Workbench, owner: PartitionedReceiver, lose: Lose
    ) -> None:
        for number, attempt in each_reply(lose):
            bench.transport.publish(bench.topic, [Outgoing(f"m{number}", b"m", partition=1)])
            (delivery,) = owner.receive(10, 0)
            failed = Attempt(1, 1_790_000_000_000, 1_500, "one", "boom")
            batch = [Settlement(delivery.receipt, Verdict.BEGIN, attempt=failed, number=2)]
            answers = attempt(lambda batch=batch: owner.settle(batch))  # type: ignore[misc]
            assert (owner.settle(batch) if answers is None else answers) == [True]
            assert settle(owner, [delivery], Verdict.RELEASE) == [True]
            (again,) = owner.receive(10, 0)
            assert (again.attempt, again.history) == (3, (failed,))
            assert settle(owner, [again]) == [True]
        bench.expect_all_settled()

    @needs("partitions")
    def test_a_turn_whose_answer_was_lost_leaves_no_partition_without_a_reader(
        self, bench: Workbench, split: Partitioned, lose: Lose
    ) -> None:
        for number, attempt in each_reply(lose):
            one = split.partitioned_receiver(
                bench.topic,
                bench.group,
                consumer=f"c{number}",
                lease_ms=bench.lease_ms,
                partitions=PARTITIONS,
                seat_ms=SEAT_MS,
            )
            attempt(lambda one=one: one.turn(sit=True))  # type: ignore[misc]
            assert len(one.turn(sit=True).owned) == PARTITIONS
            bench.transport.publish(bench.topic, [Outgoing(f"m{number}", b"m", partition=1)])
            assert settle(one, one.receive(10, 0)) == [True]
            one.turn(sit=False)
            one.give_up(range(PARTITIONS))
            one.close()
        bench.expect_all_settled()

    @needs("ordered", "partitions")
    @pytest.mark.parametrize("on_failed_head", ["block", "park"])
    def test_a_lone_consumer_keeps_the_order_of_a_key_whichever_answer_is_lost(
        self, bench: Workbench, transport: Transport, lose: Lose, pass_time: PassTime, on_failed_head: str
    ) -> None:
        house = House(bench, transport, partitions=PARTITIONS)
        parks = on_failed_head == "park"
        numbers = {f"k{reply}": range(reply * ALL, (reply + 1) * ALL) for reply in range(FIRST_REPLIES)}
        journal = Journal(fail=[mine[POISON] for mine in numbers.values()])

        def consumer(name: str) -> Consumer:
            return house.consumer(
                journal, name=name, ordering="key", retry=RetryPolicy(1, (0.5,)), on_failed_head=on_failed_head
            )

        def wait(kind: str, number: int) -> None:
            until(lambda: len(house.facts.of(kind)) >= number, between=lambda: pass_time(0.05))

        for reply, (key, mine) in enumerate(numbers.items()):
            for number in mine[:BEFORE]:
                house.publish(number, key=key)
            with lose(reply) as lost, running(consumer(f"c{reply}")):
                until(lost, between=lambda: pass_time(0.05))
                for number in mine[BEFORE:]:
                    house.publish(number, key=key)
                wait("parked" if parks else "dead", (reply + 1) * (ALL - POISON if parks else 1))
                wait("settled", (reply + 1) * (POISON if parks else ALL - 1))
            assert journal.by_key[key] == [*mine[:POISON], *([] if parks else mine[POISON + 1 :])]
        if parks:
            assert isinstance(transport, Partitioned)
            for key in numbers:
                assert transport.unpark(bench.topic, bench.group, key, "skip") is not None
            with running(consumer("last")):
                wait("settled", FIRST_REPLIES * (ALL - 1))
        assert journal.by_key == {key: [n for n in mine if n != mine[POISON]] for key, mine in numbers.items()}
        assert journal.together == []
        bench.expect_all_settled()
