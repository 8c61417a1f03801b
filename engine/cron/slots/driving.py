"""Runs the protocol for real: each of its steps is a call to the place that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from engine.core.clock import Clock
from engine.core.errors import Unavailable
from engine.cron.slots.steps import Monotonic, Step, Steps, Wait

Answer = TypeVar("Answer")
#: Answers a step, or raises ``Unavailable``.
Act = Callable[[Step], Any]


def acts(calls: Mapping[type[Step], Callable[[Any], Any]]) -> Act:
    """Each step by the call for its kind; ``KeyError`` for one that has none."""

    def act(step: Step) -> Any:
        return calls[type(step)](step)

    return act


def advance(steps: Steps[Any], act: Act, clock: Clock) -> Wait:
    """Go on with a part of the protocol until it waits: that wait. It has asked for nothing yet, or waited before.

    Raises ``StopIteration`` with what it returns once it comes to its end, and what it raises.
    """
    step = next(steps)
    while not isinstance(step, Wait):
        try:
            answer = clock.monotonic() if isinstance(step, Monotonic) else act(step)
        except Unavailable as error:
            step = steps.throw(error)
        else:
            step = steps.send(answer)
    return step


def perform(steps: Steps[Answer], act: Act, clock: Clock) -> Answer:
    """Run a part of the protocol that does not wait to its end, and return what it returns; raises what it raises.

    Other errors than ``Unavailable`` are nobody's answer: they end it where it stands, as a kill would.
    """
    try:
        wait = advance(steps, act, clock)
    except StopIteration as end:
        returned: Answer = end.value
        return returned
    finally:
        steps.close()
    raise AssertionError(f"{wait} is for who can wait")
