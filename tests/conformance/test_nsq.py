"""The NSQ transport keeps every promise it makes, on a real nsqd with the real Valkey beside it.

nsqd cannot be given a clock: time passes by waiting, and leases are short. What is set to ``None`` below asks for what
the transport declares it has not: a history, order, priorities, empty messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance import (
    AdminConformance,
    ConcurrencyConformance,
    DeadLetterConformance,
    DeliveryConformance,
    GroupConformance,
    IdempotencyConformance,
    LeaseConformance,
    PayloadConformance,
    PublishConformance,
    RetryConformance,
    WaitingConformance,
)
from engine.bus.conformance.base import PATIENCE_S, Workbench, bodies, bury, numbered, retry, settle
from engine.bus.conformance.payloads import PAYLOADS
from engine.bus.registry import open_transport
from engine.bus.transport import Delivery, Lag, Receiver, Status, Transport, Verdict
from engine.core.clock import ManualClock

LEASE_MS = 1_000
#: nsqd looks for lapsed leases every 100 ms, but takes notice of a new channel only every 5 s.
NOTICED_S = 6.0
#: What became of a message takes so long to reach nsqd, which does not answer.
HEARD_S = 0.1
FULL = {name: body for name, body in PAYLOADS.items() if body}


class RealTime(ManualClock):
    """Says the real time, and lets it pass by waiting: a few leases' length at most."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def advance(self, seconds: float) -> None:
        time.sleep(min(seconds, 3 * LEASE_MS / 1000))


class NsqWorkbench(Workbench):
    """Has the patience that nsqd asks for."""

    def take(self, receiver: Receiver, number: int) -> list[Delivery]:
        taken: list[Delivery] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(taken) < number and time.monotonic() < deadline:
            taken += receiver.receive(number - len(taken), 0.2)
            if len(taken) < number:
                receiver.extend([each.receipt for each in taken])
        assert len(taken) == number
        return taken

    def drain(self, receiver: Receiver) -> list[Delivery]:
        names = receiver._names  # type: ignore[attr-defined]
        topic = names.topic.nsq.partition(".")[2]
        taken: list[Delivery] = []
        idle_since = time.monotonic()
        while time.monotonic() - idle_since < NOTICED_S:
            if batch := receiver.receive(500, 0):
                assert all(settle(receiver, batch))
                taken += batch
                idle_since = time.monotonic()
            elif not self.admin.lag(topic, names.channel).unsettled:
                break
        return taken


class TestNsq(
    ConcurrencyConformance,
    DeadLetterConformance,
    DeliveryConformance,
    GroupConformance,
    IdempotencyConformance,
    LeaseConformance,
    PayloadConformance,
    PublishConformance,
    RetryConformance,
    WaitingConformance,
    AdminConformance,
):
    lease_ms = LEASE_MS

    @pytest.fixture
    def clock(self) -> ManualClock:
        return RealTime()

    @pytest.fixture
    def transport(self, redis_url: str, nsqd_url: str, prefix: str) -> Iterator[Transport]:
        transport = open_transport(BusConfig(type="nsq", url=redis_url, prefix=prefix, options={"nsqd": nsqd_url}))
        yield transport
        transport.close()

    @pytest.fixture
    def pass_time(self) -> Callable[[float], None]:
        return time.sleep

    @pytest.fixture
    def bench(self, transport: Transport, clock: ManualClock) -> Iterator[Workbench]:
        made = NsqWorkbench(transport, self.lease_ms, clock)
        yield made
        made.close()

    def lag(self, bench: Workbench) -> Lag:
        time.sleep(HEARD_S)
        return bench.admin.lag(bench.topic, bench.group)

    # No history: no position to read back, to begin at, or to go to
    test_messages_published_before_anybody_reads_all_arrive_in_order = None
    test_outcomes_answer_the_batch_in_order = None
    test_a_message_can_be_read_back_at_its_position = None
    test_the_original_of_another_priority_is_named_with_a_position_that_can_be_read = None
    test_a_group_made_late_can_read_from_the_beginning = None
    test_lag_stays_known_for_groups_made_anywhere = None
    test_depth_tells_number_and_age = None
    test_an_attempt_after_an_ack_starts_from_nothing = None
    test_moving_the_group_wakes_who_waits = None
    test_a_lost_group_is_healed_at_its_checkpoint = None
    test_the_checkpoint_of_a_fresh_group_leads_to_everything = None
    test_receipts_of_before_the_loss_own_nothing_after_it = None
    test_deleting_a_topic_leaves_nothing = None
    test_dead_letters_outlive_the_message_in_the_topic = None
    test_a_dead_message_lies_once_in_the_dead_letters_with_its_record = None
    # No order
    test_a_batch_whose_leases_ran_out_comes_again_in_order = None
    test_resume_goes_on_where_the_pause_began = None
    test_reading_goes_on_where_a_closed_receiver_stopped = None
    test_released_messages_come_back_in_order_and_before_new_ones = None
    test_only_what_was_not_settled_comes_again = None
    test_groups_read_concurrently_without_touching_each_other = None
    test_every_group_gets_every_message = None
    test_publishing_and_reading_interleave_without_loss = None
    test_a_batch_of_thousands_is_stored_whole_and_in_order = None
    # Waits of a minute, or margins that only an injected clock keeps; below in shorter form
    test_after_the_window_the_key_is_free_again = None
    test_a_retry_waits_until_it_is_due = None
    test_the_oldest_unsettled_message_tells_the_age_of_the_backlog = None
    # nsqd notices later than that
    test_a_lease_that_runs_out_wakes_who_waits = None
    # Larger than nsqd takes
    test_large_messages_among_small_ones_keep_their_order = None

    @pytest.mark.parametrize("body", FULL.values(), ids=FULL.keys())
    def test_a_body_arrives_byte_for_byte(self, bench: Workbench, body: bytes) -> None:
        super().test_a_body_arrives_byte_for_byte(bench, body)

    @pytest.mark.parametrize("body", FULL.values(), ids=FULL.keys())
    def test_a_body_survives_a_retry_and_the_dead_letters(self, bench: Workbench, body: bytes) -> None:
        super().test_a_body_survives_a_retry_and_the_dead_letters(bench, body)

    def test_outcomes_answer_the_batch(self, bench: Workbench) -> None:
        batch = [bench.outgoing(body) for body in numbered(5)]
        outcomes = bench.transport.publish(bench.topic, batch)
        assert [outcome.message_id for outcome in outcomes] == [message.message_id for message in batch]
        assert {outcome.status for outcome in outcomes} == {Status.OK}

    def test_all_that_was_published_before_anybody_read_arrives(self, bench: Workbench) -> None:
        bench.publish(*numbered(100))
        taken = bench.take(bench.receiver(), 100)
        assert set(bodies(taken)) == set(numbered(100))
        assert {(delivery.attempt, delivery.history) for delivery in taken} == {(1, ())}

    def test_a_batch_whose_leases_ran_out_comes_again(self, bench: Workbench) -> None:
        bench.publish(*numbered(120))
        bench.take(bench.receiver("one"), 120)
        taken = bench.take(bench.receiver("two"), 120)
        assert set(bodies(taken)) == set(numbered(120))
        assert {delivery.attempt for delivery in taken} == {2}

    def test_a_resumed_group_gets_all_that_waited(self, bench: Workbench) -> None:
        receiver = bench.receiver()
        bench.admin.pause(bench.topic, bench.group)
        bench.publish(*numbered(4))
        assert receiver.receive(10, 0) == []
        bench.admin.resume(bench.topic, bench.group)
        assert set(bodies(bench.drain(receiver))) == set(numbered(4))
        assert bench.admin.lag(bench.topic, bench.group).paused is False

    def test_consumers_that_come_and_go_have_all_of_it_once_together(self, bench: Workbench) -> None:
        bench.publish(*numbered(30))
        taken: list[bytes] = []
        for turn in range(6):
            receiver = bench.receiver(f"c{turn}")
            batch = bench.take(receiver, 5)
            settle(receiver, batch)
            receiver.close()
            taken += bodies(batch)
        assert sorted(taken) == sorted(numbered(30))

    def test_released_messages_come_again_as_the_same_attempt(self, bench: Workbench) -> None:
        bench.publish(*numbered(30))
        receiver = bench.receiver()
        settle(receiver, bench.take(receiver, 20), Verdict.RELEASE)
        taken = bench.take(bench.receiver("two"), 30)
        assert sorted(bodies(taken)) == sorted(numbered(30))
        assert {delivery.attempt for delivery in taken} == {1}

    def test_only_the_unsettled_come_again(self, bench: Workbench) -> None:
        bench.publish(*numbered(10))
        one = bench.receiver("one")
        taken = bench.take(one, 10)
        settle(one, taken[::2])
        again = bench.take(bench.receiver("two"), 5)
        assert set(bodies(again)) == set(bodies(taken[1::2]))

    def test_thousands_go_to_every_group(self, bench: Workbench) -> None:
        names = [bench.group, *(f"group-{number}" for number in range(3))]
        for name in names[1:]:
            bench.admin.create_group(bench.topic, name)
        bench.publish(*numbered(2_345))
        for name in names:
            assert sorted(bodies(bench.drain(bench.receiver(group=name)))) == sorted(numbered(2_345))

    def test_a_lease_that_runs_out_ends_a_long_wait(self, bench: Workbench) -> None:
        bench.publish(b"x")
        bench.take_one(bench.receiver("one"))
        began = time.monotonic()
        assert [found.attempt for found in bench.receiver("two").receive(1, 15)] == [2]
        assert time.monotonic() - began < NOTICED_S + LEASE_MS / 1000

    def test_a_dead_message_lies_once_with_its_record(self, bench: Workbench) -> None:
        bench.publish(b"poison")
        receiver = bench.receiver()
        delivery = bench.take_one(receiver)
        assert bury(receiver, delivery, b'{"cause":"no such hotel"}')
        (letter,) = bench.admin.dead(bench.topic, bench.group)
        assert (letter.body, letter.record, letter.position) == (
            b"poison",
            b'{"cause":"no such hotel"}',
            delivery.position,
        )

    def test_a_key_is_free_again_after_its_window(self, bench: Workbench) -> None:
        message = bench.outgoing(b"x")
        keyed = type(message)(message.message_id, b"x", message.priority, "order-1", "digest", 1_000)
        statuses = [bench.transport.publish(bench.topic, [keyed])[0].status for _ in range(2)]
        time.sleep(1.1)
        statuses.append(bench.transport.publish(bench.topic, [keyed])[0].status)
        assert statuses == [Status.OK, Status.DUPLICATE, Status.OK]

    def test_a_retry_comes_when_it_is_due_and_not_before(self, bench: Workbench) -> None:
        bench.publish(b"x")
        receiver = bench.receiver()
        assert retry(receiver, bench.take_one(receiver), after_ms=1_000)
        failed = time.monotonic()
        assert bench.take_one(receiver).attempt == 2
        assert 0.95 < time.monotonic() - failed < 3

    def test_the_oldest_unsettled_message_tells_its_age_to_about_a_second(self, bench: Workbench) -> None:
        assert self.lag(bench).oldest_ms is None
        began = bench.clock.now_ms()
        bench.publish(b"old")
        time.sleep(2)
        bench.publish(b"new")
        # Waiting, in flight, and retried
        assert abs((self.lag(bench).oldest_ms or 0) - began) < 1_100
        receiver = bench.receiver()
        old, new = sorted(bench.take(receiver, 2), key=lambda each: each.position)
        assert abs((self.lag(bench).oldest_ms or 0) - began) < 100
        retry(receiver, old, after_ms=60_000)
        assert abs((self.lag(bench).oldest_ms or 0) - began) < 100
        settle(receiver, [old])
        assert abs((self.lag(bench).oldest_ms or 0) - began - 2_000) < 200
        settle(receiver, [new])
        assert self.lag(bench).oldest_ms is None
