"""A delivery is reserved for a while: not longer, and for nobody else meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.bus.conformance.base import TransportTests, Workbench, bodies, numbered, retry, settle
from engine.bus.conformance.promises import keeps
from engine.bus.transport import Delivery, Receiver, Verdict

PassTime = Callable[[float], None]


class LeaseConformance(TransportTests):
    def let_run_out(self, pass_time: PassTime) -> None:
        pass_time(self.lease_ms / 1000 + 0.01)

    def given_away(self, bench: Workbench, pass_time: PassTime) -> tuple[Receiver, Delivery, Receiver, Delivery]:
        """One message that ``one`` held until its lease ran out, and that ``two`` holds now."""
        bench.publish(b"x")
        one, two = bench.receiver("one"), bench.receiver("two")
        old = bench.take_one(one)
        self.let_run_out(pass_time)
        return one, old, two, bench.take_one(two)

    def test_a_leased_message_is_handed_to_nobody_else(self, bench: Workbench, pass_time: PassTime) -> None:
        bench.publish(b"x")
        bench.take_one(bench.receiver("one"))

        pass_time(0.8 * self.lease_ms / 1000)

        assert bench.receiver("two").receive(1, 0) == []

    @keeps("K19")
    def test_a_lease_that_ran_out_is_seen_as_a_failed_attempt_of_its_owner(
        self, bench: Workbench, pass_time: PassTime
    ) -> None:
        # Given a consumer that took a message and died
        bench.publish(b"x")
        first = bench.take_one(bench.receiver("worker-7"))

        # When its lease has run out
        self.let_run_out(pass_time)

        # Then another gets it, and can see what happened
        again = bench.take_one(bench.receiver("two"))
        assert (again.body, again.position, again.attempt) == (b"x", first.position, 2)
        (lapsed,) = again.history
        assert (lapsed.number, lapsed.consumer, lapsed.error) == (1, "worker-7", "lease ran out")
        assert lapsed.at_ms <= bench.clock.now_ms()

    @keeps("K19")
    def test_each_lease_that_runs_out_adds_an_attempt(self, bench: Workbench, pass_time: PassTime) -> None:
        bench.publish(b"x")
        for attempt in range(1, 6):
            delivery = bench.take_one(bench.receiver(f"c{attempt}"))
            assert delivery.attempt == attempt
            assert [failed.number for failed in delivery.history] == list(range(1, attempt))
            self.let_run_out(pass_time)

    def test_a_batch_whose_leases_ran_out_comes_again(self, bench: Workbench, pass_time: PassTime) -> None:
        bench.publish(*numbered(120))
        bench.take(bench.receiver("one"), 120)
        self.let_run_out(pass_time)

        bench.expect(bench.take(bench.receiver("two"), 120), numbered(120))

    @keeps("K4")
    def test_only_what_was_not_settled_comes_again(self, bench: Workbench, pass_time: PassTime) -> None:
        bench.publish(*numbered(10))
        one = bench.receiver("one")
        taken = bench.take(one, 10)
        settle(one, taken[::2])
        self.let_run_out(pass_time)

        bench.expect(bench.take(bench.receiver("two"), 5), sorted({*numbered(10)} - {*bodies(taken[::2])}))
        assert bench.receiver("two").receive(10, 0) == []

    @keeps("K18")
    def test_a_heartbeat_keeps_a_message_beyond_its_lease(self, bench: Workbench, pass_time: PassTime) -> None:
        bench.publish(b"x")
        one, two = bench.receiver("one"), bench.receiver("two")
        delivery = bench.take_one(one)

        # When the handler needs three leases' time and its heart beats
        for _ in range(6):
            pass_time(self.lease_ms / 2000)
            assert one.extend([delivery.receipt]) == [True]
            assert two.receive(1, 0) == []

        # Then it is still the owner
        assert settle(one, [delivery]) == [True]

    def test_extending_gives_the_full_length_from_now(self, bench: Workbench, pass_time: PassTime) -> None:
        bench.publish(b"x")
        one, two = bench.receiver("one"), bench.receiver("two")
        delivery = bench.take_one(one)
        pass_time(self.lease_ms / 2000)
        one.extend([delivery.receipt])

        pass_time(self.lease_ms * 0.9 / 1000)
        assert two.receive(1, 0) == []
        pass_time(self.lease_ms * 0.2 / 1000)
        assert bench.take_one(two).attempt == 2

    def test_a_lease_that_ran_out_unnoticed_can_still_be_extended(self, bench: Workbench, pass_time: PassTime) -> None:
        bench.publish(b"x")
        one = bench.receiver("one")
        delivery = bench.take_one(one)
        self.let_run_out(pass_time)

        assert one.extend([delivery.receipt]) == [True]
        assert bench.receiver("two").receive(1, 0) == []

    def test_extend_answers_each_receipt_on_its_own(self, bench: Workbench) -> None:
        bench.publish(*numbered(4))
        one = bench.receiver("one")
        taken = bench.take(one, 4)
        settle(one, [taken[0], taken[2]])

        assert one.extend([delivery.receipt for delivery in taken]) == [False, True, False, True]
        assert one.extend([]) == []

    @pytest.mark.parametrize("verdict", [Verdict.RETRY, Verdict.DEAD, Verdict.RELEASE])
    def test_a_stale_owner_cannot_touch_what_another_holds(
        self, bench: Workbench, pass_time: PassTime, verdict: Verdict
    ) -> None:
        one, old, two, new = self.given_away(bench, pass_time)

        assert one.extend([old.receipt]) == [False]
        assert settle(one, [old], verdict) == [False]

        # And the new owner is not disturbed
        assert bench.receiver("three").receive(1, 0) == []
        assert bench.admin.lag(bench.topic, bench.group).dead == 0
        assert two.extend([new.receipt]) == [True]
        assert settle(two, [new]) == [True]

    def test_a_late_ack_is_honoured_while_nobody_has_settled(self, bench: Workbench, pass_time: PassTime) -> None:
        one, old, two, new = self.given_away(bench, pass_time)

        # When the first owner is done after all: its effect exists
        assert settle(one, [old]) == [True]

        # Then the message is settled, and the second is told that it had it in vain
        assert settle(two, [new]) == [False]
        self.let_run_out(pass_time)
        assert bench.receiver("three").receive(1, 0) == []

    def test_a_late_ack_after_another_has_settled_is_refused(self, bench: Workbench, pass_time: PassTime) -> None:
        one, old, two, new = self.given_away(bench, pass_time)

        assert settle(two, [new]) == [True]
        assert settle(one, [old]) == [False]

    def test_a_late_ack_also_stops_a_scheduled_retry(self, bench: Workbench, pass_time: PassTime) -> None:
        one, old, two, new = self.given_away(bench, pass_time)
        assert retry(two, new, after_ms=1_000)

        assert settle(one, [old]) == [True]

        pass_time(2)
        assert two.receive(1, 0) == []

    @keeps("K38")
    def test_two_consumers_of_one_name_do_not_own_each_others_messages(
        self, bench: Workbench, pass_time: PassTime
    ) -> None:
        # Given a consumer whose lease ran out, and another of the same name that got the message then
        bench.publish(b"x")
        first, second = bench.receiver("twin"), bench.receiver("twin")
        old = bench.take_one(first)
        self.let_run_out(pass_time)
        new = bench.take_one(second)

        # Then the old receipt is worth nothing, though the name is the same
        assert first.extend([old.receipt]) == [False]
        assert retry(first, old) is False
        assert second.extend([new.receipt]) == [True]

    @keeps("K38")
    def test_two_consumers_of_one_name_share_the_work(self, bench: Workbench) -> None:
        bench.publish(*numbered(20))
        first, second = bench.receiver("twin"), bench.receiver("twin")

        taken = bench.take(first, 10) + bench.take(second, 10)

        assert sorted(bodies(taken)) == sorted(numbered(20))
        assert all(settle(first, taken[:10]))
        assert all(settle(second, taken[10:]))

    def test_a_closed_receiver_keeps_its_leases_until_they_run_out(self, bench: Workbench, pass_time: PassTime) -> None:
        bench.publish(b"x")
        one, two = bench.receiver("one"), bench.receiver("two")
        bench.take_one(one)
        one.close()

        assert two.receive(1, 0) == []
        self.let_run_out(pass_time)
        assert bench.take_one(two).attempt == 2
