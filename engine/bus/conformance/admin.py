"""What an operator is told about topics and groups is true at every moment."""

from __future__ import annotations

from collections.abc import Callable

from engine.bus.config import BusConfig
from engine.bus.conformance.base import TransportTests, Workbench, bury, numbered, retry, settle
from engine.bus.conformance.promises import keeps, needs
from engine.bus.registry import Factory
from engine.bus.transport import Outgoing, Verdict

PassTime = Callable[[float], None]


class AdminConformance(TransportTests):
    def states(self, bench: Workbench) -> tuple[int | None, int, int, int]:
        lag = bench.lag()
        return lag.waiting, lag.in_flight, lag.retrying, lag.dead

    @keeps("K31")
    def test_lag_follows_every_message_through_its_states(self, bench: Workbench, pass_time: PassTime) -> None:
        assert self.states(bench) == (0, 0, 0, 0)
        bench.publish(*numbered(10))
        assert self.states(bench) == (10, 0, 0, 0)

        receiver = bench.receiver()
        taken = bench.take(receiver, 6)
        assert self.states(bench) == (4, 6, 0, 0)

        settle(receiver, taken[:1])
        retry(receiver, taken[1], after_ms=5_000)
        bury(receiver, taken[2])
        assert self.states(bench) == (4, 3, 1, 1)

        # A released one waits again; a lease that ran out is a failure
        settle(receiver, [taken[3]], Verdict.RELEASE)
        assert self.states(bench) == (5, 2, 1, 1)
        pass_time(self.lease_ms / 1000 + 0.01)
        assert self.states(bench) == (5, 0, 3, 1)

        bench.drain(receiver)
        assert self.states(bench) == (0, 0, 0, 1)

    @keeps("K31")
    def test_unsettled_is_published_minus_settled(self, bench: Workbench) -> None:
        bench.publish(*numbered(100))
        receiver = bench.receiver()
        for settled in range(0, 100, 20):
            assert bench.lag().unsettled == 100 - settled
            settle(receiver, bench.take(receiver, 20))
        assert bench.lag().unsettled == 0

    @keeps("K31")
    @needs("seek")
    def test_lag_stays_known_for_groups_made_anywhere(self, bench: Workbench) -> None:
        outcomes = bench.publish(*numbered(10))
        bench.admin.create_group(bench.topic, "middle", outcomes[3].position)
        bench.admin.create_group(bench.topic, "last", "end")
        bench.publish(*numbered(5))

        assert bench.admin.lag(bench.topic, "middle").waiting == 11
        assert bench.admin.lag(bench.topic, "last").waiting == 5

    def test_the_oldest_unsettled_message_tells_the_age_of_the_backlog(
        self, bench: Workbench, pass_time: PassTime
    ) -> None:
        # A store that takes no clock may know the age of what nobody took yet to the second
        gap_ms, rough_ms, near_ms = (10_000, 0, 0) if self.reads_clock else (2_000, 1_100, 200)

        def oldest_is(at_ms: int, within_ms: int) -> None:
            found = bench.lag().oldest_ms
            assert found is not None
            assert abs(found - at_ms) <= within_ms

        assert bench.lag().oldest_ms is None
        start_ms = bench.clock.now_ms()
        bench.publish(b"old")
        pass_time(gap_ms / 1000)
        bench.publish(b"new")
        oldest_is(start_ms, rough_ms)

        # Also while it is in flight and while it is retried
        receiver = bench.receiver()
        old, new = sorted(bench.take(receiver, 2), key=lambda each: each.body, reverse=True)
        oldest_is(start_ms, near_ms)
        retry(receiver, old, after_ms=60_000)
        oldest_is(start_ms, near_ms)

        settle(receiver, [old])
        oldest_is(start_ms + gap_ms, near_ms)
        settle(receiver, [new])
        assert bench.lag().oldest_ms is None

    @needs("browse")
    def test_depth_tells_number_and_age(self, bench: Workbench, pass_time: PassTime) -> None:
        depth = bench.admin.depth(bench.topic)
        assert (depth.messages, depth.first_ms, depth.last_ms) == (0, None, None)

        first_ms = bench.clock.now_ms()
        bench.publish(b"x" * 1_000)
        pass_time(60)
        bench.publish(b"x" * 1_000)

        depth = bench.admin.depth(bench.topic)
        assert (depth.messages, depth.first_ms, depth.last_ms) == (2, first_ms, first_ms + 60_000)
        assert depth.bytes is None or depth.bytes >= 2_000

    def test_counts_add_up(self, bench: Workbench, pass_time: PassTime) -> None:
        keyed = Outgoing("id", b"x", idempotency_key="k", idempotency_digest="d", idempotency_window_ms=60_000)
        bench.transport.publish(bench.topic, [keyed, keyed])
        bench.publish(*numbered(5))
        receiver = bench.receiver()
        taken = bench.take(receiver, 6)
        settle(receiver, taken[:2])
        retry(receiver, taken[2])
        bury(receiver, taken[3])
        settle(receiver, [taken[4]], Verdict.RELEASE)
        pass_time(self.lease_ms / 1000 + 0.01)
        assert len(bench.drain(receiver)) == 3
        settle(receiver, taken)

        assert bench.admin.counts(bench.topic) == {"published": 6, "deduplicated": 1}
        assert bench.admin.counts(bench.topic, bench.group) == {
            "settled": 5,
            "retried": 1,
            "dead": 1,
            "released": 1,
            "lapsed": 1,
        }

    def test_counts_of_what_is_not_there_are_empty(self, bench: Workbench) -> None:
        assert bench.admin.counts("conformance.nowhere") == {}
        assert bench.admin.counts(bench.topic, "nobody") == {}

    def test_the_transport_can_be_pinged_and_closed_twice(
        self, bench: Workbench, config: BusConfig, factory: Factory
    ) -> None:
        assert 0 <= bench.transport.ping() < 5
        another = factory(config, None)
        assert 0 <= another.ping() < 5
        another.close()
        another.close()
        # It is its own to close
        bench.publish(b"x")
