"""What the work of a run is given, and what it answers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from engine.core.secret_values import NO_SECRETS, SecretValues
from engine.cron.slots.parts import WHOLE, Shard, shard_of
from engine.cron.work.log_spool import LogSpool

#: The longest summary of a run, in characters.
SUMMARY_LIMIT = 2_000


class Stopped(Exception):
    """The run is to end now: its lease is lost, somebody cancelled it, or its time is over."""


class Hopeless(Exception):
    """Raised by work that no further attempt can help: the run fails at once. Its text says why."""


class LastCall(NamedTuple):
    """By the monotonic clock of the machine: when work is to end of which no worker says anything any more."""

    #: From then on it is asked to.
    asked: float = inf
    #: Nothing of it may be left.
    over: float = inf


@dataclass(frozen=True, slots=True)
class RunCall:
    """One attempt of one run."""

    run: int
    job: str
    attempt: int
    #: Seconds since the epoch: the planned instant, or when it was triggered.
    slot: int
    epoch: int
    correlation_id: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    #: Which part of the slot it does, see :mod:`~engine.cron.slots.parts`; empty: the whole.
    part: str = WHOLE

    @property
    def shard(self) -> Shard:
        """Which shard it does; of what is not divided into shards, the only one."""
        return shard_of(self.part) or Shard(0, 1)


@dataclass(frozen=True, slots=True)
class WorkOutcome:
    """How the work ended."""

    done: bool
    #: Why it failed: the end of a sentence.
    reason: str = ""
    #: Whether another attempt may help.
    again: bool = True
    #: What it has to say at its end.
    summary: str = ""


class RunContext:
    """What the work holds in its hands. Thread-safe."""

    def __init__(self, call: RunCall, log: LogSpool, timeout_s: float = 0.0) -> None:
        self.call = call
        self.log = log
        #: How long the run may take, in seconds; 0: as long as it does. Whoever runs the work holds it to that.
        self.timeout_s = timeout_s
        #: For what goes on without this process, such as a program: each renewal of the lease puts it off.
        self.last_call = LastCall()
        self._stop = threading.Event()
        self._why = ""

    def stop(self, why: str) -> None:
        """Ask the work to end; the first reason stays."""
        self._why = self._why or why
        self._stop.set()

    @property
    def secrets(self) -> SecretValues:
        """What it was given and nothing of it is to show."""
        return self.log.secrets or NO_SECRETS

    @property
    def why_stopped(self) -> str:
        """The end of a sentence; empty as long as it may go on."""
        return self._why

    def raise_if_stopped(self) -> None:
        """For work of many parts to call between them: raises :class:`Stopped` when it is to end."""
        if self._stop.is_set():
            raise Stopped(self._why)

    def wait(self, seconds: float) -> None:
        """As long, or until it is to end: raises :class:`Stopped` then."""
        if self._stop.wait(seconds):
            raise Stopped(self._why)

    def is_stopped(self, within_s: float = 0.0) -> bool:
        """Whether it is to end, asked for so long."""
        return self._stop.wait(within_s)
