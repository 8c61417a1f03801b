"""Handler threads: more and fewer while running, hung ones shown, and given up where there is a limit."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from engine.bus.consuming.worker import Worker
from engine.bus.policy import BreakerPolicy, RetryPolicy
from engine.core.clock import ManualClock
from engine.core.errors import BadInput
from tests.engine.bus.kit import Bus, Recorder, running, until


class Stuck:
    """A handler that hangs in its first ``hang`` calls, until it is let go."""

    def __init__(self, hang: int = 1) -> None:
        self.go = threading.Event()
        self.contexts: list[Any] = []
        self.recorder = Recorder(self._call)
        self._hang = hang

    def _call(self, message: Any, context: Any) -> None:
        self.contexts.append(context)
        if len(self.contexts) <= self._hang:
            self._wait_for_ever()

    def _wait_for_ever(self) -> None:
        self.go.wait(30)


def test_threads_are_added_and_removed_while_it_runs(bus: Bus) -> None:
    stuck = Stuck(hang=100)
    consumer = bus.consumer(stuck.recorder, concurrency=1)
    for number in range(12):
        bus.publish({"n": number})
    with running(consumer):
        stuck.recorder.wait_for(1)
        consumer.set_concurrency(5)
        stuck.recorder.wait_for(5)
        assert consumer.status().concurrency == consumer.status().in_flight == 5
        consumer.set_concurrency(2)
        # Nothing that runs is cut off; who ends finds no more work.
        assert consumer.status().in_flight == 5
        stuck.go.set()
        bus.facts.wait_for("settled", 12)
        stuck.go.clear()
        for number in range(6):
            bus.publish({"n": number})
        stuck.recorder.wait_for(14)
        until(lambda: consumer.status().in_flight == 2)
        stuck.go.set()
        bus.facts.wait_for("settled", 18)
        assert consumer.status().dead_threads == ()
    assert not bus.facts.of("lease_lost")


@pytest.mark.parametrize("threads", [0, 257])
def test_a_number_that_cannot_be_is_refused(bus: Bus, threads: int) -> None:
    consumer = bus.consumer(Recorder())
    with pytest.raises(BadInput) as refused:
        consumer.set_concurrency(threads)
    assert refused.value.field == "concurrency"
    consumer.stop(0)


def test_a_handler_that_never_returns_is_shown_and_keeps_its_lease(bus: Bus, clock: ManualClock) -> None:
    stuck = Stuck()
    sent = bus.publish({"n": 1})
    consumer = bus.consumer(stuck.recorder, concurrency=1, lease_s=10)
    with running(consumer):
        stuck.recorder.wait_for(1)
        assert consumer.status().hung == ()
        until(lambda: consumer.status().oldest_running_s > 300, between=lambda: clock.advance(2))
        (hung,) = consumer.status().hung
        assert consumer.status().state == "hung"
        assert (hung.message_id, hung.attempt, hung.given_up) == (sent.message_id, 1, False)
        assert hung.running_s > 300
        assert any("_wait_for_ever" in line for line in hung.stack)
        # Its heart has beaten all the time: nobody else was given the message.
        assert not stuck.contexts[0].lease_lost
        assert len(stuck.recorder.calls) == 1
        stuck.go.set()
        bus.facts.wait_for("settled")
        assert consumer.status().hung == ()
        assert consumer.status().state == "running"


def test_beyond_its_limit_it_is_given_up_and_another_thread_goes_on(any_bus: Bus, clock: ManualClock) -> None:
    stuck = Stuck()
    any_bus.publish({"n": 1})
    consumer = any_bus.consumer(
        stuck.recorder, concurrency=1, max_handler_s=60.0, retry=RetryPolicy(3, (5.0,)), breaker=BreakerPolicy(0)
    )
    with running(consumer):
        stuck.recorder.wait_for(1)
        until(lambda: bool(any_bus.facts.of("retried")), between=lambda: clock.advance(0.5))
        (retried,) = any_bus.facts.of("retried")
        assert "did not return within 60 s" in retried.error
        assert 60_000_000 <= retried.duration_us < 70_000_000
        assert stuck.contexts[0].lease_lost
        (left,) = consumer.status().hung
        assert left.given_up
        # The next attempt is handled by the thread that took its place.
        until(lambda: bool(any_bus.facts.of("settled")), between=lambda: clock.advance(0.5))
        assert stuck.contexts[1].attempt == 2
        stuck.go.set()
        # What the first one returned counts for nothing, and is said.
        (late,) = any_bus.facts.wait_for("lease_lost")
        assert "given up" in late.detail
        until(lambda: consumer.status().hung == ())
        assert len(any_bus.facts.of("settled")) == 1
    assert any_bus.unsettled() == 0


def test_the_last_attempt_given_up_is_a_dead_letter(bus: Bus, clock: ManualClock) -> None:
    stuck = Stuck()
    bus.publish({"n": 1})
    with running(bus.consumer(stuck.recorder, max_handler_s=5.0, retry=RetryPolicy(1, (5.0,)))):
        stuck.recorder.wait_for(1)
        until(lambda: bool(bus.facts.of("dead")), between=lambda: clock.advance(0.5))
        assert "HandlerHung" in bus.facts.of("dead")[0].error
        stuck.go.set()


def test_a_key_goes_on_when_its_head_was_given_up(bus: Bus, clock: ManualClock) -> None:
    stuck = Stuck()
    for number in range(3):
        bus.publish({"n": number}, key="stay-1")
    consumer = bus.consumer(
        stuck.recorder, ordering="key", max_handler_s=5.0, retry=RetryPolicy(3, (1.0,)), concurrency=1
    )
    with running(consumer):
        until(lambda: bool(stuck.recorder.calls), between=lambda: clock.advance(0.5))
        until(lambda: len(bus.facts.of("settled")) == 3, between=lambda: clock.advance(0.5))
        stuck.go.set()
    handled = [message.payload() for message in stuck.recorder.calls]
    assert handled == [b'{"n":0}', b'{"n":0}', b'{"n":1}', b'{"n":2}']


def test_a_handler_that_has_just_begun_is_not_given_up_for_the_one_before_it(
    bus: Bus, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = [threading.Event(), threading.Event()]
    contexts: list[Any] = []

    def handle(message: Any, context: Any) -> None:
        contexts.append(context)
        going[len(contexts) - 1].wait(30)

    recorder, give_up, answers = Recorder(handle), Worker.give_up, []

    def late(worker: Worker, *judged: Any) -> bool:
        # Between the judgement of the first and its end, the first returns and the second begins.
        going[0].set()
        recorder.wait_for(2)
        answers.append(give_up(worker, *judged))
        return answers[-1]

    monkeypatch.setattr(Worker, "give_up", late)
    for number in range(2):
        bus.publish({"n": number})
    with running(bus.consumer(recorder, concurrency=1, max_handler_s=60.0, lease_s=600.0)):
        recorder.wait_for(1)
        until(lambda: bool(answers), between=lambda: None if going[0].is_set() else clock.advance(1))
        assert answers == [False]
        assert not contexts[1].lease_lost
        going[1].set()
        bus.facts.wait_for("settled", 2)
    assert not bus.facts.of("retried")
