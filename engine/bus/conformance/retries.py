"""A failed attempt comes again when it is due, with its history; a released one at once, without."""

from __future__ import annotations

from collections.abc import Callable

from engine.bus.conformance.base import TransportTests, Workbench, bodies, bury, numbered, retry, settle
from engine.bus.conformance.promises import keeps, needs
from engine.bus.transport import Attempt, Settlement, Verdict

PassTime = Callable[[float], None]


class RetryConformance(TransportTests):
    @keeps("K4")
    def test_a_retry_waits_until_it_is_due(self, bench: Workbench, pass_time: PassTime) -> None:
        bench.publish(b"x")
        receiver = bench.receiver()
        assert retry(receiver, bench.take_one(receiver), after_ms=2_000)

        pass_time(1.6)
        assert receiver.receive(1, 0) == []
        pass_time(0.5)
        assert bench.take_one(receiver).attempt == 2

    def test_a_retry_may_outlast_the_lease(self, bench: Workbench, pass_time: PassTime) -> None:
        bench.publish(b"x")
        receiver = bench.receiver()
        retry(receiver, bench.take_one(receiver), after_ms=4 * self.lease_ms)

        pass_time(3 * self.lease_ms / 1000)

        assert receiver.receive(1, 0) == []

    @keeps("K19")
    def test_attempts_are_counted_with_their_history_oldest_first(self, bench: Workbench) -> None:
        bench.publish(b"x")
        receiver = bench.receiver()
        for number in range(1, 8):
            delivery = bench.take_one(receiver)
            assert delivery.attempt == number
            assert [(past.number, past.error) for past in delivery.history] == [
                (past, f"error {past}") for past in range(1, number)
            ]
            assert retry(receiver, delivery, error=f"error {number}")

    @keeps("K19")
    def test_the_history_keeps_every_field(self, bench: Workbench) -> None:
        bench.publish(b"x")
        receiver = bench.receiver()
        attempt = Attempt(1, 1_790_000_123_456, 2_500_000, "worker-7", "TimeoutError: no answer")
        receiver.settle([Settlement(bench.take_one(receiver).receipt, Verdict.RETRY, 0, attempt)])

        assert bench.take_one(receiver).history == (attempt,)

    def test_a_retry_without_a_record_still_counts(self, bench: Workbench) -> None:
        bench.publish(b"x")
        receiver = bench.receiver()
        settle(receiver, [bench.take_one(receiver)], Verdict.RETRY)

        again = bench.take_one(receiver)

        assert (again.attempt, again.history) == (2, ())

    def test_a_retry_may_come_to_another_consumer(self, bench: Workbench) -> None:
        bench.publish(b"x")
        one, two = bench.receiver("one"), bench.receiver("two")
        retry(one, bench.take_one(one), error="boom")

        again = bench.take_one(two)

        assert [past.error for past in again.history] == ["boom"]
        assert settle(two, [again]) == [True]

    def test_due_retries_come_before_new_messages(self, bench: Workbench) -> None:
        bench.publish(b"old")
        receiver = bench.receiver()
        retry(receiver, bench.take_one(receiver))
        bench.publish(b"new")

        assert bodies(bench.take(receiver, 2)) == [b"old", b"new"]

    def test_a_retry_that_is_not_due_does_not_hold_up_the_others(self, bench: Workbench) -> None:
        bench.publish(*numbered(3))
        receiver = bench.receiver()
        (first,) = bench.take_some(receiver, 1)
        retry(receiver, first, after_ms=60_000)

        bench.expect(bench.drain(receiver), sorted({*numbered(3)} - {first.body}))

    def test_one_groups_retries_are_not_anothers(self, bench: Workbench) -> None:
        bench.admin.create_group(bench.topic, "others")
        bench.publish(b"x")
        receiver = bench.receiver()
        retry(receiver, bench.take_one(receiver), after_ms=60_000)

        other = bench.take_one(bench.receiver(group="others"))

        assert (other.attempt, other.history) == (1, ())

    def test_what_is_retried_is_given_out_of_hand(self, bench: Workbench) -> None:
        bench.publish(b"x")
        receiver = bench.receiver()
        delivery = bench.take_one(receiver)
        assert retry(receiver, delivery, after_ms=60_000)

        assert receiver.extend([delivery.receipt]) == [False]
        assert retry(receiver, delivery) is False
        assert bury(receiver, delivery) is False

    @needs("seek")
    def test_an_attempt_after_an_ack_starts_from_nothing(self, bench: Workbench) -> None:
        # Given a message that failed once and was settled then
        bench.publish(b"x")
        receiver = bench.receiver()
        retry(receiver, bench.take_one(receiver))
        settle(receiver, [bench.take_one(receiver)])

        # When the group goes back
        bench.admin.seek(bench.topic, bench.group, "beginning")

        # Then it is a first attempt again
        again = bench.take_one(receiver)
        assert (again.attempt, again.history) == (1, ())

    def test_a_released_message_comes_again_at_once_and_as_the_same_attempt(self, bench: Workbench) -> None:
        bench.publish(b"x")
        one, two = bench.receiver("one"), bench.receiver("two")
        delivery = bench.take_one(one)
        assert settle(one, [delivery], Verdict.RELEASE) == [True]

        again = bench.take_one(two)

        assert (again.attempt, again.history) == (1, ())
        assert one.extend([delivery.receipt]) == [False]

    def test_releasing_a_second_attempt_keeps_its_history(self, bench: Workbench) -> None:
        bench.publish(b"x")
        receiver = bench.receiver()
        retry(receiver, bench.take_one(receiver), error="boom")
        settle(receiver, [bench.take_one(receiver)], Verdict.RELEASE)

        again = bench.take_one(receiver)

        assert again.attempt == 2
        assert [past.error for past in again.history] == ["boom"]

    @needs("ordered")
    def test_released_messages_come_back_in_order_and_before_new_ones(self, bench: Workbench) -> None:
        bench.publish(*numbered(30))
        receiver = bench.receiver()
        taken = bench.take(receiver, 20)

        # When a stopping consumer hands back what it prefetched, in whatever order
        settle(receiver, taken[12:], Verdict.RELEASE)
        settle(receiver, taken[:12][::-1], Verdict.RELEASE)

        assert bodies(bench.take(bench.receiver("two"), 30)) == numbered(30)

    def test_a_mixed_batch_is_answered_in_order(self, bench: Workbench) -> None:
        bench.publish(*numbered(6))
        receiver = bench.receiver()
        taken = bench.take(receiver, 6)
        settle(receiver, taken[:2])

        # When a batch mixes everything, with two that are settled already
        results = receiver.settle(
            [
                Settlement(taken[0].receipt, Verdict.RETRY),
                Settlement(taken[2].receipt, Verdict.DEAD, dead=b"{}"),
                Settlement(taken[3].receipt),
                Settlement(taken[1].receipt),
                Settlement(taken[4].receipt, Verdict.RELEASE),
                Settlement(taken[5].receipt, Verdict.RETRY, 60_000),
            ]
        )

        # Then each is answered in its place, and done
        assert results == [False, True, True, False, True, True]
        assert bodies(bench.take_some(receiver, 10)) == [taken[4].body]
        lag = bench.lag()
        assert (lag.in_flight, lag.retrying, lag.dead) == (1, 1, 1)

    def test_the_same_receipt_twice_in_a_batch_counts_once(self, bench: Workbench) -> None:
        bench.publish(*numbered(2))
        receiver = bench.receiver()
        first, second = bench.take(receiver, 2)

        assert settle(receiver, [first, first, second]) == [True, False, True]

    def test_settling_nothing_does_nothing(self, bench: Workbench) -> None:
        assert bench.receiver().settle([]) == []
