"""Groups are made, paused, lost and healed; their loss is loud."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.bus.conformance.base import TransportTests, Workbench, bodies, numbered, retry, settle
from engine.bus.conformance.promises import keeps, needs
from engine.bus.errors import GroupLost
from engine.bus.transport import Priority, Verdict


class GroupConformance(TransportTests):
    def test_making_a_group_twice_changes_nothing(self, bench: Workbench) -> None:
        bench.publish(*numbered(3))
        one = bench.receiver()
        taken = bench.take(one, 2)
        settle(one, taken)
        one.close()

        assert bench.admin.create_group(bench.topic, bench.group, "beginning") is False
        assert bench.admin.create_group(bench.topic, "others") is True

        assert {*bodies(bench.drain(bench.receiver()))} == {*numbered(3)} - {*bodies(taken)}
        assert bench.admin.groups(bench.topic) == ["others", bench.group]

    def test_a_topic_nobody_made_has_no_groups(self, bench: Workbench) -> None:
        assert bench.admin.groups("conformance.nowhere") == []

    @keeps("K35")
    def test_a_lost_group_is_reported_by_everything_that_needs_it(self, bench: Workbench) -> None:
        receiver = bench.receiver()
        bench.publish(b"x")
        delivery = bench.take_one(receiver)

        # When somebody deletes the group under a live consumer
        bench.admin.delete_group(bench.topic, bench.group)

        # Then nothing goes on as if nothing had happened
        for act in (
            lambda: receiver.receive(1, 0),
            lambda: receiver.receive(1, 5),
            lambda: bench.admin.lag(bench.topic, bench.group),
            lambda: bench.admin.checkpoint(bench.topic, bench.group),
            lambda: bench.admin.seek(bench.topic, bench.group, "beginning"),
            lambda: bench.admin.pause(bench.topic, bench.group),
            lambda: bench.admin.resume(bench.topic, bench.group),
        ):
            with pytest.raises(GroupLost) as caught:
                act()
            assert bench.group in str(caught.value)
            assert caught.value.remedy
        assert settle(receiver, [delivery]) == [False]
        assert receiver.extend([delivery.receipt]) == [False]
        assert bench.admin.groups(bench.topic) == []

    def test_deleting_a_group_that_is_not_there_does_nothing(self, bench: Workbench) -> None:
        bench.admin.delete_group(bench.topic, "nobody")
        bench.admin.delete_group("conformance.nowhere", "nobody")

    @keeps("K35")
    @needs("seek", "priority", "ordered")
    def test_a_lost_group_is_healed_at_its_checkpoint(self, bench: Workbench) -> None:
        # Given a group with settled, retrying, leased and waiting messages of all priorities
        bench.publish(*numbered(10))
        bench.publish(b"high", priority=Priority.HIGH)
        bench.publish(b"low", priority=Priority.LOW)
        receiver = bench.receiver()
        taken = bench.take(receiver, 7)
        assert bodies(taken) == [b"high", *numbered(6)]
        settle(receiver, taken[:4])
        retry(receiver, taken[4], after_ms=60_000)
        settle(receiver, taken[6:])

        # When it is lost and made anew at its last checkpoint
        checkpoint = bench.admin.checkpoint(bench.topic, bench.group)
        bench.admin.delete_group(bench.topic, bench.group)
        assert bench.admin.create_group(bench.topic, bench.group, checkpoint) is True

        # Then all that was not settled comes, and nothing of what was settled before the oldest of it
        again = bodies(bench.drain(receiver))
        assert again == [b"m3", b"m4", b"m5", b"m6", b"m7", b"m8", b"m9", b"low"]

    def test_the_checkpoint_of_a_group_that_settled_all_leads_to_nothing(self, bench: Workbench) -> None:
        bench.publish(*numbered(5))
        bench.drain(bench.receiver())

        checkpoint = bench.admin.checkpoint(bench.topic, bench.group)
        bench.admin.create_group(bench.topic, "copy", checkpoint)
        bench.publish(b"new")

        assert bodies(bench.drain(bench.receiver(group="copy"))) == [b"new"]

    @needs("seek")
    def test_the_checkpoint_of_a_fresh_group_leads_to_everything(self, bench: Workbench) -> None:
        bench.publish(*numbered(5))

        bench.admin.create_group(bench.topic, "copy", bench.admin.checkpoint(bench.topic, bench.group))

        assert bodies(bench.drain(bench.receiver(group="copy"))) == numbered(5)

    @needs("seek")
    def test_receipts_of_before_the_loss_own_nothing_after_it(self, bench: Workbench) -> None:
        bench.publish(b"x")
        receiver = bench.receiver("twin")
        old = bench.take_one(receiver)
        bench.admin.delete_group(bench.topic, bench.group)
        bench.admin.create_group(bench.topic, bench.group)

        new = bench.take_one(bench.receiver("twin"))

        assert receiver.extend([old.receipt]) == [False]
        assert retry(receiver, old) is False
        assert receiver.extend([new.receipt]) == [True]

    @keeps("K30")
    @needs("pause")
    def test_pause_stops_new_deliveries_and_keeps_those_in_flight(self, bench: Workbench) -> None:
        bench.publish(*numbered(4))
        receiver = bench.receiver()
        first, second = bench.take(receiver, 2)

        bench.admin.pause(bench.topic, bench.group)

        assert receiver.receive(10, 0) == []
        assert bench.admin.lag(bench.topic, bench.group).paused is True
        assert receiver.extend([first.receipt]) == [True]
        assert settle(receiver, [first]) == [True]
        assert settle(receiver, [second], Verdict.RELEASE) == [True]
        assert receiver.receive(10, 0) == []

    @keeps("K30")
    @needs("pause")
    def test_resume_goes_on_where_the_pause_began(self, bench: Workbench) -> None:
        receiver = bench.receiver()
        bench.admin.pause(bench.topic, bench.group)
        bench.publish(*numbered(4))
        assert receiver.receive(10, 0) == []

        bench.admin.resume(bench.topic, bench.group)

        bench.expect(bench.drain(receiver), numbered(4))
        assert bench.admin.lag(bench.topic, bench.group).paused is False

    @keeps("K30")
    @needs("pause")
    def test_a_pause_holds_retries_and_lapsed_leases_too(
        self, bench: Workbench, pass_time: Callable[[float], None]
    ) -> None:
        bench.publish(*numbered(2))
        receiver = bench.receiver()
        retry(receiver, bench.take(receiver, 2)[0])
        bench.admin.pause(bench.topic, bench.group)

        pass_time(2 * self.lease_ms / 1000)
        assert receiver.receive(10, 0) == []

        bench.admin.resume(bench.topic, bench.group)
        assert sorted(bodies(bench.take(receiver, 2))) == numbered(2)

    @needs("pause")
    def test_a_pause_is_one_groups_own(self, bench: Workbench) -> None:
        bench.admin.create_group(bench.topic, "others")
        bench.admin.pause(bench.topic, bench.group)
        bench.publish(b"x")

        assert bodies(bench.drain(bench.receiver(group="others"))) == [b"x"]

    @needs("browse")
    def test_deleting_a_topic_leaves_nothing(self, bench: Workbench) -> None:
        bench.publish(*numbered(3))
        bench.take(bench.receiver(), 1)

        bench.admin.delete_topic(bench.topic)

        assert bench.admin.depth(bench.topic).messages == 0
        assert bench.admin.groups(bench.topic) == []
        assert bench.admin.browse(bench.topic).entries == []
        with pytest.raises(GroupLost):
            bench.receiver().receive(1, 0)

        # And the name can be used anew
        bench.admin.create_topic(bench.topic)
        bench.admin.create_group(bench.topic, bench.group)
        bench.publish(b"fresh")
        assert bodies(bench.drain(bench.receiver())) == [b"fresh"]

    def test_making_a_topic_twice_keeps_what_is_in_it(self, bench: Workbench) -> None:
        bench.publish(b"x")
        bench.admin.create_topic(bench.topic)
        assert bench.admin.depth(bench.topic).messages == 1
