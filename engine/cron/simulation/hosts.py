"""The machines of a history and what goes on on them, with the steps that the simulator has beside the protocol's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from engine.cron.slots.steps import Step, Steps


@dataclass(frozen=True, slots=True)
class Take(Step):
    """Queue: any run that waits for ``node`` → its id, or ``None``."""

    node: str


@dataclass(frozen=True, slots=True)
class Effect(Step):
    """Database: what the run is for, done under its epoch or not at all → whether it was."""

    run: int
    epoch: int
    node: str
    place: str


@dataclass(frozen=True, slots=True)
class Cancel(Step):
    """Database: a person has a run stopped → whether it was still to be."""

    run: int
    why: str


@dataclass(frozen=True, slots=True)
class Ask(Step):
    """Database: a person triggers a run, of one part of a job → its row."""

    job: str
    part: str


@dataclass(slots=True, eq=False)
class Host:
    """A machine: it has clocks of its own, may stop for a while, and may die."""

    name: str
    #: Added to true time for its wall clock.
    skew_s: float = 0.0
    paused_until: float = 0.0
    #: Grows with each death; what belongs to an earlier life goes on no more.
    life: int = 0
    #: What it cannot reach, and until when.
    cut_off: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Process:
    host: Host
    life: int
    steps: Steps[Any]
    #: What to call when it has come to its end.
    ended: Callable[[], None] | None = None
