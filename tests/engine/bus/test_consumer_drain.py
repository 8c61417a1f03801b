"""Ending and pausing: what is in hand is finished or handed back, and the deadline holds."""

from __future__ import annotations

import threading

import pytest

from engine.bus.consumer import Left
from engine.bus.consuming.settler import Settler
from engine.bus.context import Context
from engine.bus.message import Message
from engine.core.clock import ManualClock
from tests.engine.bus.kit import PATIENCE_S, Bus, Recorder, running, until


def _stop_in_background(consumer: object, drain_s: float) -> tuple[threading.Thread, list[Left]]:
    left: list[Left] = []
    thread = threading.Thread(target=lambda: left.append(consumer.stop(drain_s)))  # type: ignore[attr-defined]
    thread.start()
    return thread, left


def test_a_drain_finishes_what_runs_and_hands_back_what_waits(any_bus: Bus) -> None:
    go_on = threading.Event()
    handler = Recorder(lambda message, context: None if len(handler.calls) < 5 else _wait(go_on))
    consumer = any_bus.consumer(handler, concurrency=1)
    for n in range(4):
        any_bus.publish({"n": n})
    with running(consumer):
        any_bus.facts.wait_for("settled", 4)
        for n in range(10):
            any_bus.publish({"n": n})
        handler.wait_for(5)
        # Read ahead, but not begun.
        until(lambda: consumer.status().queued > 0)
        thread, left = _stop_in_background(consumer, 30.0)
        until(lambda: consumer.status().state == "draining")
        any_bus.facts.wait_for("released")
        go_on.set()
        thread.join(PATIENCE_S)
        assert left[0].running == left[0].unsettled == 0
        assert left[0].clean
        assert left[0].released == len(any_bus.facts.of("released")) >= 1
        # Nobody had looked at them; they are named all the same.
        assert all(fact.message_id and fact.type for fact in any_bus.facts.of("released"))
        assert len(handler.calls) == 5
        assert consumer.stop(1.0) == Left()
    # Nothing waits for a lease to end: another consumer has the rest at once, as first attempts.
    rest = Recorder()
    with running(any_bus.consumer(rest, name="c2")):
        facts = any_bus.facts.wait_for("settled", 14)
    assert {fact.attempt for fact in facts} == {1}
    assert any_bus.unsettled() == 0


def _wait(event: threading.Event) -> None:
    assert event.wait(PATIENCE_S)


def test_a_drain_ends_at_its_deadline_and_tells_what_is_left(bus: Bus, clock: ManualClock) -> None:
    go_on = threading.Event()
    contexts: list[Context] = []

    def stuck(message: Message, context: Context) -> None:
        contexts.append(context)
        assert go_on.wait(PATIENCE_S)

    handler = Recorder(stuck)
    consumer = bus.consumer(handler, lease_s=30.0)
    bus.publish({"n": 1})
    with running(consumer):
        handler.wait_for(1)
        thread, left = _stop_in_background(consumer, 20.0)
        until(lambda: consumer.status().state == "draining")
        clock.advance(19.0)
        until(lambda: not thread.is_alive())
        assert left == [Left(running=1, unsettled=0, released=0)]
        assert not left[0].clean
        assert contexts[0].lease_lost
        assert consumer.status().state == "stopped"
    # Nobody renews its lease any more, so another consumer gets it.
    rest = Recorder()
    with running(bus.consumer(rest, name="c2")):
        clock.advance(31)
        rest.wait_for(1)
    go_on.set()


def test_a_drain_without_the_store_ends_too_and_says_what_was_not_settled(bus: Bus, clock: ManualClock) -> None:
    handler = Recorder()
    consumer = bus.consumer(handler)
    with running(consumer):
        bus.transport.wait_for("receive", 1)
        bus.transport.failing.add("settle")
        bus.publish({"n": 1})
        bus.facts.wait_for("store_lost")
        thread, left = _stop_in_background(consumer, 10.0)
        until(lambda: consumer.status().state == "draining")
        clock.advance(10.0)
        until(lambda: not thread.is_alive())
        assert (left[0].running, left[0].unsettled) == (0, 1)


def _drain_beside(bus: Bus, clock: ManualClock, verb: str, defect: BaseException, ordering: str = "none") -> Left:
    """What a drain leaves whose handler ends after ``verb`` has broken, or has been asked for again since."""
    go_on = threading.Event()
    handler = Recorder(lambda message, context: _wait(go_on))
    consumer = bus.consumer(handler, ordering=ordering)
    bus.publish({"n": 1}, key="a")
    with running(consumer):
        handler.wait_for(1)
        thread, left = _stop_in_background(consumer, 120.0)
        until(lambda: consumer.status().state == "draining")
        bus.transport.once[verb] = defect
        if verb != "settle":
            until(lambda: verb not in bus.transport.once, between=lambda: clock.advance(0.5))
            calls = bus.transport.calls(verb)
            until(lambda: bus.transport.calls(verb) > calls, between=lambda: clock.advance(0.5))
        go_on.set()
        until(lambda: not thread.is_alive(), between=lambda: clock.advance(0.5))
    return left[0]


@pytest.mark.parametrize(("verb", "ordering"), [("settle", "none"), ("extend", "none"), ("turn", "key")])
def test_what_breaks_during_a_drain_and_is_needed_until_its_end_is_started_again(
    any_bus: Bus, clock: ManualClock, verb: str, ordering: str
) -> None:
    assert _drain_beside(any_bus, clock, verb, SystemExit("a defect"), ordering).clean
    assert len(any_bus.facts.of("settled")) == 1
    assert any_bus.unsettled() == 0


def test_a_drain_whose_settler_breaks_again_and_again_says_what_it_left(
    bus: Bus, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object, batch: object) -> None:
        raise SystemExit("a defect")

    monkeypatch.setattr(Settler, "_settle", broken)
    left = _drain_beside(bus, clock, "settle", SystemExit("a defect"))
    assert (left.running, left.unsettled, left.clean) == (0, 1, False)


def test_decisions_made_before_the_end_are_settled(bus: Bus) -> None:
    handler = Recorder()
    for n in range(200):
        bus.publish({"n": n})
    consumer = bus.consumer(handler)
    with running(consumer):
        handler.wait_for(200)
        left = consumer.stop(30.0)
    assert left.clean
    assert bus.unsettled() == 0
    assert len(bus.facts.of("settled")) == 200


def test_a_paused_consumer_hands_back_what_waits_and_goes_on_when_resumed(bus: Bus) -> None:
    go_on = threading.Event()
    handler = Recorder(lambda message, context: None if len(handler.calls) < 3 else _wait(go_on))
    consumer = bus.consumer(handler, concurrency=1)
    bus.publish({"n": 0})
    bus.publish({"n": 1})
    with running(consumer):
        bus.facts.wait_for("settled", 2)
        for n in range(5):
            bus.publish({"n": n})
        handler.wait_for(3)
        until(lambda: consumer.status().queued > 0)
        consumer.pause()
        bus.facts.wait_for("released")
        assert consumer.status().state == "paused"
        go_on.set()
        bus.facts.wait_for("settled", 3)
        until(lambda: consumer.status().in_flight == 0 and consumer.status().queued == 0)
        assert len(handler.calls) == 3
        assert bus.unsettled() == 4
        consumer.resume()
        facts = bus.facts.wait_for("settled", 7)
        assert consumer.status().state == "running"
    assert {fact.attempt for fact in facts} == {1}


def test_a_consumer_that_was_never_started_stops_at_once(bus: Bus) -> None:
    consumer = bus.consumer(Recorder())
    assert consumer.stop(30.0) == Left()
    assert consumer.status().state == "stopped"


def test_a_consumer_that_never_got_to_the_store_stops_as_well(bus: Bus, clock: ManualClock) -> None:
    bus.transport.failing.add("receive")
    consumer = bus.consumer(Recorder())
    consumer.start()
    bus.facts.wait_for("store_lost")
    assert consumer.stop(5.0).clean
