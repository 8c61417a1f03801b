"""Exceptions that break whoever looks at them, and defects around an attempt: the delivery is let go all the same."""

from __future__ import annotations

from typing import Any

import pytest

from engine.bus import dead
from engine.bus.consuming.breaker import Breaker
from engine.bus.consuming.dispatch import FifoDispatcher
from engine.bus.consuming.worker import Worker
from engine.bus.dead import RetryDecider
from engine.bus.errors import RetryLater, Unrecoverable
from engine.bus.policy import BreakerPolicy, RetryPolicy
from engine.bus.transport import Outgoing
from engine.core.clock import ManualClock
from tests.engine.bus.kit import GROUP, TOPIC, Bus, Recorder, running, until


class Mute(Exception):
    """Cannot be printed."""

    def __str__(self) -> str:
        raise SystemExit("nothing to say")


class Hopeless(Unrecoverable):
    """Cannot be printed, and no further attempt helps."""

    def __str__(self) -> str:
        raise RuntimeError("nothing to say")


def caused() -> Exception:
    error = ValueError("no room")
    error.__cause__ = Mute()
    return error


BROKEN = [
    (Mute(), "Mute: (its text cannot be had: SystemExit)"),
    (Hopeless(), "Hopeless: (its text cannot be had: RuntimeError)"),
    (OSError(2, "No such file", "a\udcff.txt"), "FileNotFoundError: [Errno 2] No such file: 'a\\udcff.txt'"),
    (ValueError("\ud800" * 1_000_000), "ValueError: \\ud800\\ud800"),
    (caused(), "ValueError: no room"),
]


class Failing:
    """A handler that raises ``error`` for the first message, as often as it comes."""

    def __init__(self, error: BaseException) -> None:
        self.recorder = Recorder(self._call)
        self._error = error

    def _call(self, message: Any, context: Any) -> None:
        if message.json()["n"] == 0:
            raise self._error


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize(("error", "said"), BROKEN)
def test_whatever_is_raised_its_message_dies_with_a_record_and_the_next_is_handled(
    any_bus: Bus, clock: ManualClock, error: BaseException, said: str, attempts: int
) -> None:
    for number in range(2):
        any_bus.publish({"n": number})
    handler = Failing(error)
    consumer = any_bus.consumer(
        handler.recorder, concurrency=1, retry=RetryPolicy(attempts, (1.0,)), breaker=BreakerPolicy(failures=1)
    )
    with running(consumer):
        until(lambda: bool(any_bus.facts.of("dead")), between=lambda: clock.advance(1))
        until(lambda: bool(any_bus.facts.of("settled")), between=lambda: clock.advance(1))
    (letter,) = any_bus.transport.admin.dead(TOPIC, GROUP)
    record = dead.decode(letter.record)
    assert record.error.startswith(said)
    assert record.history[-1].error.startswith(said)
    assert any_bus.facts.of("dead")[0].error.startswith(said)
    assert any_bus.unsettled() == 0


@pytest.mark.parametrize("key", ["", "stay-1"])
def test_a_defect_around_an_attempt_fails_the_attempt(bus: Bus, clock: ManualClock, key: str) -> None:
    later = RetryLater(1)
    later.seconds = "soon"  # type: ignore[assignment]
    for number in range(2):
        bus.publish({"n": number}, key=key)
    consumer = bus.consumer(
        Failing(later).recorder, retry=RetryPolicy(2, (1.0,)), ordering="key" if key else "none", concurrency=1
    )
    with running(consumer):
        until(lambda: bool(bus.facts.of("dead")), between=lambda: clock.advance(1))
        until(lambda: bool(bus.facts.of("settled")), between=lambda: clock.advance(1))
        assert consumer.status().last_error.startswith("TypeError: ")
    assert len(bus.facts.of("retried")) == 1
    assert bus.unsettled() == 0


@pytest.mark.parametrize("key", ["", "stay-1"])
def test_what_nothing_can_be_decided_about_is_let_go_and_comes_again(
    bus: Bus, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    decide, broken = RetryDecider.decide, [2]

    def defective(*args: Any, **more: Any) -> Any:
        if broken[0]:
            broken[0] -= 1
            raise RuntimeError("a defect")
        return decide(*args, **more)

    monkeypatch.setattr(RetryDecider, "decide", defective)
    for number in range(2):
        bus.publish({"n": number}, key=key)
    handler = Failing(ValueError("no room"))
    consumer = bus.consumer(
        handler.recorder, retry=RetryPolicy(1, (1.0,)), lease_s=6.0, ordering="key" if key else "none", concurrency=1
    )
    with running(consumer):
        told = "retried" if key else "lease_lost"
        until(lambda: bool(bus.facts.of(told)), between=lambda: clock.advance(1))
        assert consumer.status().last_error == "RuntimeError: a defect"
        until(lambda: bool(bus.facts.of("dead")), between=lambda: clock.advance(1))
        until(lambda: bool(bus.facts.of("settled")), between=lambda: clock.advance(1))
        assert consumer.status().dead_threads == ()
    (fact,) = bus.facts.of(told)
    assert "a defect" in fact.error + fact.detail
    if key:
        # Order holds: the next of the key waits.
        assert [message.json()["n"] for message in handler.recorder.calls] == [0, 0, 1]
    assert bus.unsettled() == 0


def test_a_defect_while_a_handler_is_given_up_lets_its_delivery_go(
    bus: Bus, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail, broken = Worker._fail, [1]

    def defective(*args: Any) -> Any:
        if broken[0]:
            broken[0] -= 1
            raise RuntimeError("a defect")
        return fail(*args)

    monkeypatch.setattr(Worker, "_fail", defective)
    go: list[bool] = []
    handler = Recorder(lambda message, context: None if go else until(lambda: bool(go)))
    bus.publish({"n": 0})
    with running(bus.consumer(handler, concurrency=1, max_handler_s=5.0, retry=RetryPolicy(3, (1.0,)))):
        until(lambda: bool(bus.facts.of("retried")), between=lambda: clock.advance(0.5))
        go.append(True)
        until(lambda: bool(bus.facts.of("settled")), between=lambda: clock.advance(0.5))
    assert bus.unsettled() == 0


def test_a_breaker_that_breaks_changes_nothing_about_the_message(
    bus: Bus, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defective(*args: Any, **more: Any) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Breaker, "failed", defective)
    monkeypatch.setattr(Breaker, "worked", defective)
    for number in range(2):
        bus.publish({"n": number})
    consumer = bus.consumer(Failing(ValueError("no room")).recorder, retry=RetryPolicy(2, (1.0,)))
    with running(consumer):
        until(lambda: bool(bus.facts.of("dead")), between=lambda: clock.advance(1))
        until(lambda: bool(bus.facts.of("settled")), between=lambda: clock.advance(1))
        assert consumer.status().last_error == "RuntimeError: a defect"
    assert [len(bus.facts.of(kind)) for kind in ("retried", "dead", "settled", "lease_lost")] == [1, 1, 1, 0]
    assert bus.unsettled() == 0


def test_what_cannot_be_settled_holds_back_nobody_who_was_asked_for_with_it(bus: Bus, clock: ManualClock) -> None:
    make = bus.transport.receiver

    class Refusing:
        def __init__(self, inner: Any) -> None:
            self._inner = inner
            self.refused = ""

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def settle(self, batch: Any) -> list[bool]:
            self.refused = self.refused or batch[0].receipt
            if any(each.receipt == self.refused for each in batch):
                raise ValueError("a defect")
            answers: list[bool] = self._inner.settle(batch)
            return answers

    bus.transport.receiver = lambda *a, **k: Refusing(make(*a, **k))  # type: ignore[method-assign]
    for number in range(20):
        bus.publish({"n": number})
    with running(bus.consumer(Recorder(), lease_s=600.0)):
        until(lambda: len(bus.facts.of("settled")) >= 19, between=lambda: clock.advance(1))
        assert len(bus.facts.of("lease_lost")) == 1
        until(lambda: len(bus.facts.of("settled")) == 20, between=lambda: clock.advance(60))
    assert bus.unsettled() == 0


def test_a_consumer_whose_threads_break_again_and_again_says_so(
    bus: Bus, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, broken = FifoDispatcher.done, [True]

    def defective(*args: Any) -> None:
        if broken[0]:
            raise Mute
        done(*args)

    monkeypatch.setattr(FifoDispatcher, "done", defective)
    consumer = bus.consumer(Recorder(), concurrency=1)
    with running(consumer):
        until(lambda: consumer.status().state == "running")
        for number in range(3):
            bus.publish({"n": number})
        until(lambda: consumer.status().state == "failing", between=lambda: clock.advance(1))
        (name,) = consumer.status().dead_threads
        assert "worker" in name
        assert consumer.status().last_error == "Mute: (its text cannot be had: SystemExit)"
        broken[0] = False
        until(lambda: len(bus.facts.of("settled")) == 3, between=lambda: clock.advance(1))
        until(lambda: consumer.status().state == "running", between=lambda: clock.advance(10))
        assert consumer.status().dead_threads == ()


@pytest.mark.parametrize("ordering", ["none", "key"])
@pytest.mark.parametrize(
    "member",
    [b'"data":' + b"[" * 100_000 + b"]" * 100_000, b'"note":' + b"[" * 100_000 + b"]" * 100_000, b'"note":1e999'],
)
def test_an_envelope_that_no_reader_gets_through_dies_and_the_next_is_handled(
    bus: Bus, clock: ManualClock, member: bytes, ordering: str
) -> None:
    # Given an envelope that another program has put there
    body = b'{"specversion":"1.0","id":"deep","source":"/other","type":"t",' + member + b"}"
    bus.transport.publish(TOPIC, [Outgoing("deep", body)])
    bus.publish({"n": 1}, key="stay-1")
    recorder = Recorder()
    with running(bus.consumer(recorder, ordering=ordering)):
        until(lambda: bool(bus.facts.of("dead")), between=lambda: clock.advance(1))
        until(lambda: bool(bus.facts.of("settled")), between=lambda: clock.advance(1))
    assert "MalformedEnvelope" in bus.facts.of("dead")[0].error
    assert [message.json()["n"] for message in recorder.calls] == [1]
    assert bus.unsettled() == 0
