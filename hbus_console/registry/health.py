"""How a thing is that a feature stands on, as its probe tells it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ProbedHealth:
    """One thing at one instant."""

    #: As its operator knows it: ``nsq``. No two things of one feature share it.
    name: str
    #: What is wrong, as words after its name: ``does not answer``; empty: it is well. Everybody reads it, at
    #: ``/readyz`` too, so it holds no address and no secret.
    trouble: str = ""
    #: More of it, for those who may look at the cluster; no secret.
    note: str = ""
    #: Without it this console serves nobody: while it is ill, ``/readyz`` answers 503.
    needed: bool = False


@dataclass(frozen=True)
class Probe:
    """One thing to be asked about, made where the question is, which has the database at hand."""

    #: As in what it answers.
    name: str
    #: Asked in a thread of its own, and waited for a second: it has no database there.
    ask: Callable[[], ProbedHealth]
    #: As in what it answers, for when it does not.
    needed: bool = False
