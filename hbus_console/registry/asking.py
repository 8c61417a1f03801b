"""Asks all features one question: the mistake of one is logged and named, and the answers of the others stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hbus_console.database import AWAY
from hbus_console.parts import Fault, Parts, log_fault
from hbus_console.registry.declaration import Feature
from hbus_console.registry.loading import features, resolve


@dataclass(frozen=True)
class Answers:
    """``found`` in the order of the features. ``silent``: the names of those that could not answer."""

    found: list[Any]
    silent: list[str]


def ask(
    asked: Callable[[Feature], Iterable[str]], *arguments: object, tell: Callable[[Fault], object] = log_fault
) -> Answers:
    """What the functions that ``asked`` names of each feature answer to ``arguments``.

    Raises what a database that is away raises (:data:`~hbus_console.database.AWAY`): then no feature could answer.
    ``tell`` hears of each feature's fault.
    """
    parts = Parts(through=AWAY)
    found: list[Any] = []
    for feature in features():
        for dotted in asked(feature):
            answer = parts.do(feature.name, lambda dotted=dotted: (resolve(dotted)(*arguments),))  # type: ignore[misc]
            found.extend(answer or ())
    for fault in parts.faults:
        tell(fault)
    return Answers(found, _names(parts.faults))


def _names(faults: Sequence[Fault]) -> list[str]:
    return list(dict.fromkeys(fault.part for fault in faults))
