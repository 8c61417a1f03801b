"""The breaker and messages that fail again and again: they say nothing of the handler, and hold up nobody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from engine.bus.breaker_board import RedisBreakers
from engine.bus.errors import Unrecoverable
from engine.bus.policy import BreakerPolicy, RetryPolicy
from engine.core.clock import ManualClock
from tests.engine.bus.kit import GROUP, TOPIC, Bus, Recorder, running, until

THREE = BreakerPolicy(failures=3, share=0.5, window_s=30, open_s=10, longest_open_s=80)
#: Attempts are not what ends these tests.
PATIENT = RetryPolicy(100, (1.0,))
WHERE = (TOPIC, GROUP)


class Poisoned:
    """Fails on messages whose payload says so, however often; handles all others."""

    def __init__(self) -> None:
        self.recorder = Recorder(self._call)

    def _call(self, message: Any, context: Any) -> None:
        if b"poison" in message.payload():
            raise ValueError("no such room")

    def tried(self, number: int) -> int:
        return sum(message.payload() == b'{"poison":%d}' % number for message in self.recorder.calls)


@pytest.fixture
def poisoned() -> Poisoned:
    return Poisoned()


@pytest.fixture
def board(redis_url: str, prefix: str, clock: ManualClock) -> Iterator[RedisBreakers]:
    with redis.Redis.from_url(redis_url) as client:
        yield RedisBreakers(client, prefix, clock)


def publish(bus: Bus, kind: str, numbers: range) -> None:
    for number in numbers:
        bus.publish({kind: number}, key=f"{kind}-{number}")


@pytest.mark.parametrize("ordering", ["none", "key"])
def test_a_few_bad_messages_tried_again_do_not_open_it(
    any_bus: Bus, clock: ManualClock, poisoned: Poisoned, ordering: str
) -> None:
    for number in range(6):
        publish(any_bus, "good", range(10 * number, 10 * number + 10))
        publish(any_bus, "poison", range(number, number + 1))
    consumer = any_bus.consumer(poisoned.recorder, retry=PATIENT, breaker=THREE, concurrency=1, ordering=ordering)
    with running(consumer):
        any_bus.facts.wait_for("settled", 60)
        # From now on nothing is handled but what fails.
        until(lambda: all(poisoned.tried(n) >= 4 for n in range(6)), between=lambda: clock.advance(0.5))
        publish(any_bus, "good", range(100, 120))
        any_bus.facts.wait_for("settled", 80)
    assert not any_bus.facts.of("breaker_opened")


@pytest.mark.parametrize("ordering", ["none", "key"])
def test_what_is_tried_is_a_message_that_has_not_failed_before(
    any_bus: Bus, clock: ManualClock, poisoned: Poisoned, ordering: str
) -> None:
    bus = any_bus
    publish(bus, "poison", range(12))
    # Once it opens all of them have failed, and are due again long before the pause is over; the good ones lie behind.
    twelve = BreakerPolicy(failures=12, share=0.5, window_s=30, open_s=10, longest_open_s=80)
    consumer = bus.consumer(poisoned.recorder, retry=PATIENT, breaker=twelve, ordering=ordering)
    with running(consumer):
        bus.facts.wait_for("breaker_opened")
        until(lambda: consumer.status().unsettled == 0)
        publish(bus, "good", range(5))
        until(lambda: len(bus.facts.of("settled")) == 5, between=lambda: clock.advance(0.5))
        until(lambda: all(poisoned.tried(n) >= 4 for n in range(12)), between=lambda: clock.advance(0.5))
        publish(bus, "good", range(5, 10))
        bus.facts.wait_for("settled", 10)
    assert [len(bus.facts.of(f"breaker_{kind}")) for kind in ("opened", "probing", "closed")] == [1, 1, 1]


def test_what_was_only_looked_at_tells_nothing_and_loses_no_attempt(
    any_bus: Bus, clock: ManualClock, poisoned: Poisoned, board: RedisBreakers
) -> None:
    bus = any_bus
    publish(bus, "poison", range(8))
    with running(bus.consumer(poisoned.recorder, retry=PATIENT, breaker=BreakerPolicy(failures=0))):
        bus.facts.wait_for("retried", 8)
        until(lambda: bus.transport.admin.lag(*WHERE).in_flight == 0)
    board.force_open(*WHERE, "the provider asked for silence")
    clock.advance(5)
    publish(bus, "good", range(1))
    released, calls = len(bus.facts.of("released")), len(poisoned.recorder.calls)
    attempts: list[int] = []

    def once_more(message: Any, context: Any) -> None:
        attempts.append(context.attempt)
        if context.attempt > 1:
            raise Unrecoverable("enough")

    consumer = bus.consumer(once_more, retry=PATIENT, breaker=THREE, breakers=board)
    with running(consumer):
        until(lambda: consumer.status().breaker == "open")
        board.force_trial(*WHERE)
        until(lambda: bool(bus.facts.of("settled")), between=lambda: clock.advance(0.5))
        until(lambda: len(attempts) == 9, between=lambda: clock.advance(0.5))
        assert len(bus.facts.of("released")) == released
    assert calls == 8
    assert (attempts[0], set(attempts[1:])) == (1, {2})


def test_a_message_that_fails_again_makes_no_pause_longer(
    bus: Bus, clock: ManualClock, poisoned: Poisoned, board: RedisBreakers
) -> None:
    publish(bus, "poison", range(3))
    consumer = bus.consumer(poisoned.recorder, retry=PATIENT, breaker=THREE, breakers=board)
    with running(consumer):
        until(lambda: len(bus.facts.of("breaker_opened")) == 4, between=lambda: clock.advance(0.5))
        assert board.look(*WHERE).opens == 1
        # It is one that had not failed before that does.
        publish(bus, "poison", range(3, 4))
        until(lambda: len(bus.facts.of("breaker_opened")) == 5, between=lambda: clock.advance(0.5))
        assert (board.look(*WHERE).opens, poisoned.tried(3)) == (2, 1)


def test_with_order_a_head_that_failed_is_not_tried_again_while_it_is_open(
    any_bus: Bus, clock: ManualClock, poisoned: Poisoned
) -> None:
    publish(any_bus, "poison", range(6))
    consumer = any_bus.consumer(poisoned.recorder, retry=PATIENT, breaker=THREE, ordering="key", concurrency=4)
    with running(consumer):
        for opened in (1, 2):
            until(lambda: len(any_bus.facts.of("breaker_opened")) == opened, between=lambda: clock.advance(0.25))  # noqa: B023
            until(lambda: consumer.status().unsettled == 0 and consumer.status().queued == 0)
            tried = len(poisoned.recorder.calls)
            # Longer than their backoff, shorter than the pause.
            for _ in range(8):
                clock.advance(0.5)
                until(lambda: any_bus.transport.admin.lag(*WHERE).in_flight == 0)
            assert len(poisoned.recorder.calls) == tried
