"""Asks the features how the things are that they stand on: beside each other, each for a second at most."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from django.db import connections

from engine.core.clock import Clock, SystemClock
from hbus_console.parts import Fault, log_fault
from hbus_console.registry.health import Probe, ProbedHealth
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
    probe: Probe
    begun_s: float
    answer: Future[ProbedHealth] = field(default_factory=Future)

    def ask(self) -> None:
        try:
            self.answer.set_result(self.probe.ask())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the feature's and told as that
            self.answer.set_exception(error)
        finally:
            connections.close_all()


#: By feature and name.
_under_way: dict[tuple[str, str], _Question] = {}
#: Likewise, what was last said to be wrong with it: it is logged when it begins, not with every question.
_said: dict[tuple[str, str], str] = {}
_lock = threading.Lock()


def begin(clock: Clock | None = None) -> list[_Question]:
    """Ask every probe, and do not wait. One that still has an earlier question to answer is not asked again."""
    clock = clock or SystemClock()
    return [
        question for feature in features() for make in feature.probes for question in _begin(feature.name, make, clock)
    ]


def _begin(feature: str, make: str, clock: Clock) -> list[_Question]:
    try:
        probes: list[Probe] = resolve(make)()
    except Exception as error:  # noqa: BLE001 - as above
        mistaken = _Question(feature, Probe(feature, _nothing), clock.monotonic())
        mistaken.answer.set_exception(error)
        return [mistaken]
    return [_ask(feature, probe, clock) for probe in probes]


def _nothing() -> ProbedHealth:
    raise NotImplementedError


def _ask(feature: str, probe: Probe, clock: Clock) -> _Question:
    with _lock:
        found = _under_way.get((feature, probe.name))
        if found is not None and not found.answer.done():
            return found
        question = _under_way[feature, probe.name] = _Question(feature, probe, clock.monotonic())
    # Not of a pool, whose threads a process waits for at its end.
    threading.Thread(target=question.ask, name=f"hbus-probe-{feature}", daemon=True).start()
    return question


def answers(questions: Sequence[_Question], clock: Clock | None = None) -> list[FeatureHealth]:
    """What was answered within :data:`PATIENCE_S` of each question. A mistake or silence is that feature's own."""
    clock = clock or SystemClock()
    return [FeatureHealth(question.feature, _answer(question, clock)) for question in questions]


def standings() -> list[FeatureHealth]:
    """How everything is that the features stand on, asked now."""
    return answers(begin())


def _answer(question: _Question, clock: Clock) -> ProbedHealth:
    probe, fault = question.probe, None
    try:
        found = question.answer.result(timeout=max(0.0, question.begun_s + PATIENCE_S - clock.monotonic()))
    except TimeoutError as error:
        fault = Fault(question.feature, error)
        found = ProbedHealth(probe.name, f"did not tell within {PATIENCE_S:g} s", needed=probe.needed)
    except Exception as error:  # noqa: BLE001 - as above
        fault = Fault(question.feature, error)
        found = ProbedHealth(probe.name, "could not tell, the log says why", needed=probe.needed)
    said = fault.words if fault else ""
    if fault and said != _said.get((question.feature, probe.name)):
        log_fault(fault)
    _said[question.feature, probe.name] = said
    return found
