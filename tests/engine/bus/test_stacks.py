"""Failed attempts tell the way their error came; what is handled well tells nothing of the kind."""

from __future__ import annotations

from typing import Any

import pytest

from engine.bus.consuming.stacks import AGAIN_S, MOST, StacksTold
from engine.bus.policy import RetryPolicy
from engine.core.clock import ManualClock
from tests.engine.bus.kit import Bus, Recorder, running, until


def look_up(room: str) -> str:
    raise KeyError(room)


def handle(message: Any, context: Any) -> None:
    number = message.json()["n"]
    if number:
        try:
            look_up(f"room {number}")
        except KeyError as error:
            raise ValueError(f"no price for {number}") from error


@pytest.mark.parametrize("key", ["", "stay-1"])
def test_the_facts_of_failed_attempts_tell_a_stack_trace_once(bus: Bus, clock: ManualClock, key: str) -> None:
    for number in range(3):
        bus.publish({"n": number}, key=key)
    consumer = bus.consumer(
        Recorder(handle), retry=RetryPolicy(2, (1.0,)), ordering="key" if key else "none", concurrency=1
    )
    with running(consumer):
        until(lambda: len(bus.facts.of("dead")) == 2, between=lambda: clock.advance(1))
        until(lambda: bool(bus.facts.of("settled")))
    failed = [*bus.facts.of("retried"), *bus.facts.of("dead")]
    assert len(failed) == 4
    # The messages differ in what they say, and their errors came the same way.
    assert len({fact.error for fact in failed}) == 2
    assert len({fact.stack_id for fact in failed}) == 1
    (stack,) = [fact.stack for fact in failed if fact.stack]
    assert "in handle\n" in stack
    assert "\ncaused by KeyError: …\n" in stack
    assert stack.splitlines()[-1].strip() == "raise KeyError(room)"
    assert all(not fact.stack_id and not fact.stack for fact in bus.facts.of("settled"))


def test_a_stack_trace_is_told_again_after_a_minute_and_so_many_within_it() -> None:
    clock = ManualClock()
    told = StacksTold(clock)
    (first, none, again), texts = told.of(["a", "", "a"])
    assert (none, again) == ("", first)
    assert texts == ["a", "", ""]
    clock.advance(AGAIN_S)
    assert told.of(["a"]) == ([first], ["a"])
    ids, texts = told.of([f"b{number}" for number in range(MOST)])
    assert (sum(map(bool, ids)), sum(map(bool, texts))) == (MOST - 1, MOST - 1)
    assert told.of(["a", "c"]) == ([first, ""], ["", ""])
