"""Retention removes what is old or too much, never what some group has not settled, and says so."""

from __future__ import annotations

from collections.abc import Callable

from engine.bus.conformance.base import TransportTests, Workbench, bodies, numbered, retry, settle
from engine.bus.conformance.promises import needs
from engine.bus.transport import Priority, TrimReport

PassTime = Callable[[float], None]


@needs("browse")
class RetentionConformance(TransportTests):
    def left(self, bench: Workbench) -> list[bytes]:
        return [stored.body for stored in bench.admin.browse(bench.topic, limit=1_000).entries]

    def test_old_settled_messages_go(self, bench: Workbench, pass_time: PassTime) -> None:
        bench.publish(*numbered(5))
        pass_time(100)
        bench.publish(*numbered(3, start=5))
        bench.drain(bench.receiver())

        report = bench.admin.trim(bench.topic, older_than_ms=50_000, keep_at_most=None)

        assert report == TrimReport(removed=5)
        assert self.left(bench) == numbered(3, start=5)

    def test_no_more_than_the_bound_stay(self, bench: Workbench) -> None:
        bench.publish(*numbered(250))
        bench.drain(bench.receiver())

        report = bench.admin.trim(bench.topic, older_than_ms=None, keep_at_most=7)

        assert report == TrimReport(removed=243)
        assert self.left(bench) == numbered(7, start=243)

    @needs("priority")
    def test_the_bound_counts_all_priorities_together_and_takes_the_oldest(
        self, bench: Workbench, pass_time: PassTime
    ) -> None:
        for index, priority in enumerate([Priority.HIGH, Priority.LOW, Priority.NORMAL] * 4):
            bench.publish(b"m%d" % index, priority=priority)
            pass_time(1)
        bench.drain(bench.receiver())

        report = bench.admin.trim(bench.topic, older_than_ms=None, keep_at_most=5)

        assert report == TrimReport(removed=7)
        assert self.left(bench) == numbered(5, start=7)

    def test_both_rules_together_take_the_stricter(self, bench: Workbench, pass_time: PassTime) -> None:
        bench.publish(*numbered(5))
        pass_time(100)
        bench.publish(*numbered(5, start=5))
        bench.drain(bench.receiver())

        assert bench.admin.trim(bench.topic, older_than_ms=50_000, keep_at_most=8).removed == 5
        assert bench.admin.trim(bench.topic, older_than_ms=50_000, keep_at_most=2).removed == 3

    def test_a_topic_within_its_bounds_loses_nothing(self, bench: Workbench) -> None:
        bench.publish(*numbered(5))
        bench.drain(bench.receiver())

        assert bench.admin.trim(bench.topic, older_than_ms=1_000, keep_at_most=5) == TrimReport(removed=0)
        assert bench.admin.trim(bench.topic, older_than_ms=None, keep_at_most=None) == TrimReport(removed=0)
        assert bench.admin.trim("conformance.nowhere", older_than_ms=0, keep_at_most=0) == TrimReport(removed=0)

    def test_what_a_group_was_never_given_stays_and_the_report_says_why(
        self, bench: Workbench, pass_time: PassTime
    ) -> None:
        bench.admin.create_group(bench.topic, "slow")
        bench.publish(*numbered(10))
        bench.drain(bench.receiver())
        slow = bench.receiver(group="slow")
        settle(slow, bench.take(slow, 4))
        pass_time(100)

        report = bench.admin.trim(bench.topic, older_than_ms=50_000, keep_at_most=None)

        assert report == TrimReport(removed=4, held=("slow",), held_back=6)
        assert bodies(bench.drain(slow)) == numbered(6, start=4)

    def test_what_is_in_flight_or_retried_stays(self, bench: Workbench) -> None:
        bench.publish(*numbered(10))
        receiver = bench.receiver()
        taken = bench.take(receiver, 10)
        settle(receiver, [each for index, each in enumerate(taken) if index not in (3, 6)])
        retry(receiver, taken[6], after_ms=1_000)

        report = bench.admin.trim(bench.topic, older_than_ms=None, keep_at_most=0)

        assert report == TrimReport(removed=3, held=(bench.group,), held_back=7)
        bench.clock.advance(2 * self.lease_ms / 1000)
        assert sorted(bodies(bench.drain(receiver))) == [b"m3", b"m6"]

    def test_each_group_that_holds_is_named(self, bench: Workbench) -> None:
        for name in ("a", "b", "done"):
            bench.admin.create_group(bench.topic, name)
        bench.publish(*numbered(4))
        for name, number in (("a", 2), ("b", 1), ("done", 4), (bench.group, 4)):
            receiver = bench.receiver(group=name)
            settle(receiver, bench.take(receiver, number))

        report = bench.admin.trim(bench.topic, older_than_ms=None, keep_at_most=0)

        assert report == TrimReport(removed=1, held=("a", "b"), held_back=3)

    @needs("priority")
    def test_one_priority_that_is_held_does_not_hold_the_others(self, bench: Workbench, pass_time: PassTime) -> None:
        bench.publish(b"low", priority=Priority.LOW)
        bench.publish(*numbered(5))
        receiver = bench.receiver()
        settle(receiver, bench.take(receiver, 5))
        pass_time(100)

        report = bench.admin.trim(bench.topic, older_than_ms=1_000, keep_at_most=None)

        assert report == TrimReport(removed=5, held=(bench.group,), held_back=1)
        assert bodies(bench.drain(receiver)) == [b"low"]

    def test_a_topic_without_groups_follows_the_policy_alone(self, bench: Workbench) -> None:
        topic = bench.make_topic()
        bench.publish(*numbered(5), topic=topic)

        assert bench.admin.trim(topic, older_than_ms=None, keep_at_most=2) == TrimReport(removed=3)

    def test_trimming_leaves_the_lag_true(self, bench: Workbench) -> None:
        bench.publish(*numbered(10))
        receiver = bench.receiver()
        settle(receiver, bench.take(receiver, 6))

        bench.admin.trim(bench.topic, older_than_ms=None, keep_at_most=0)

        lag = bench.admin.lag(bench.topic, bench.group)
        assert (lag.waiting, lag.in_flight) == (4, 0)
        assert bodies(bench.drain(receiver)) == numbered(4, start=6)
