"""Asks the features how the things are that they stand on: beside each other, each for a second at most."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from django.db import connections

from engine.core.clock import Clock, SystemClock
from hbus_console.parts import Fault, log_fault
from hbus_console.registry.health import ProbedHealth
from hbus_console.registry.loading import features, resolve

#: Seconds a probe is waited for.
PATIENCE_S = 1.0


@dataclass(frozen=True)
class FeatureHealth:
    """One thing that a feature stands on. A feature that cannot tell is one such thing itself."""

    feature: str
    health: ProbedHealth

    @property
    def name(self) -> str:
        """``topics:nsq``; a feature that cannot tell has its name alone."""
        return self.feature if self.health.name == self.feature else f"{self.feature}:{self.health.name}"

    @property
    def tone(self) -> str:
        return "bad" if self.health.trouble else "ok"


@dataclass
class _Question:
    """One probe under way, in a thread of its own that ends with it."""

    feature: str
    dotted: str
    begun_s: float
    answer: Future[list[ProbedHealth]] = field(default_factory=Future)

    def ask(self) -> None:
        try:
            self.answer.set_result(list(resolve(self.dotted)()))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the feature's and told as that
            self.answer.set_exception(error)
        finally:
            connections.close_all()


_under_way: dict[str, _Question] = {}
#: By probe, what was last said to be wrong with it: it is logged when it begins, not with every question.
_said: dict[str, str] = {}
_lock = threading.Lock()


def begin(clock: Clock | None = None) -> list[_Question]:
    """Ask every probe, and do not wait. One that still has an earlier question to answer is not asked again."""
    clock = clock or SystemClock()
    return [_begin(feature.name, dotted, clock) for feature in features() for dotted in feature.probes]


def _begin(feature: str, dotted: str, clock: Clock) -> _Question:
    with _lock:
        found = _under_way.get(dotted)
        if found is not None and not found.answer.done():
            return found
        question = _under_way[dotted] = _Question(feature, dotted, clock.monotonic())
    # Not of a pool, whose threads a process waits for at its end.
    threading.Thread(target=question.ask, name=f"hbus-probe-{feature}", daemon=True).start()
    return question


def answers(questions: Sequence[_Question], clock: Clock | None = None) -> list[FeatureHealth]:
    """What was answered within :data:`PATIENCE_S` of each question. A mistake or silence is that feature's own."""
    clock = clock or SystemClock()
    return [standing for question in questions for standing in _answer(question, clock)]


def standings() -> list[FeatureHealth]:
    """How everything is that the features stand on, asked now."""
    return answers(begin())


def _answer(question: _Question, clock: Clock) -> list[FeatureHealth]:
    try:
        left_s = question.begun_s + PATIENCE_S - clock.monotonic()
        found = question.answer.result(timeout=max(0.0, left_s))
        said = ""
    except TimeoutError as error:
        found, said = [ProbedHealth(question.feature, f"did not tell within {PATIENCE_S:g} s")], "slow"
        fault = Fault(question.feature, error)
    except Exception as error:  # noqa: BLE001 - as above
        fault = Fault(question.feature, error)
        found, said = [ProbedHealth(question.feature, "could not tell, the log says why")], fault.words
    if said != _said.get(question.dotted, "") and said:
        log_fault(fault)
    _said[question.dotted] = said
    return [FeatureHealth(question.feature, health) for health in found]
