"""Does the work of runs that were offered, under their leases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import text_of
from engine.core.errors import Unavailable
from engine.cron.slots import running
from engine.cron.slots.driving import Act, perform
from engine.cron.slots.job import JobPolicy
from engine.cron.slots.keeping import LeaseKeeper
from engine.cron.slots.running import Held
from engine.cron.slots.steps import RunState

#: How long to wait before the end of a run is told again to a database that did not answer, in seconds.
TELL_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class Ended:
    """How the work ended."""

    state: RunState
    #: Why it failed: the end of a sentence.
    reason: str = ""
    #: Whether another attempt might help, where it failed.
    again: bool = True


#: The work of a run. The event is set when it is to stop: its lease is lost, and what is done from then on is nobody's;
#: or somebody asked for it, and a failure is then told as cancelled.
Work = Callable[[Held, threading.Event], Ended]


class RunWorker:
    """Thread-safe: each thread runs one run at a time."""

    def __init__(
        self,
        name: str,
        act: Act,
        keeper: LeaseKeeper,
        policy: Callable[[str], JobPolicy],
        clock: Clock | None = None,
    ) -> None:
        self._name = name
        self._act = act
        self._keeper = keeper
        self._policy = policy
        self._clock = clock or SystemClock()

    def run(self, run: int, work: Work) -> RunState | None:
        """Do the work of a run, unless it is not ours to begin; what it is then, such as claimed again, or ``None``.

        Raises ``Unavailable`` when it could not be begun: it is offered again. An error of ``work`` fails the run.
        """
        owner = f"{self._name}#{uuid4().hex[:12]}"
        held = perform(running.begin(run, owner, self._policy), self._act, self._clock)
        if held is None:
            return None
        lost, stop = threading.Event(), threading.Event()

        def lose() -> None:
            lost.set()
            stop.set()

        number = self._keeper.keep(held, lose, stop.set)
        try:
            return self._tell(held, lost, _done(work, held, stop))
        finally:
            self._keeper.let_go(number)

    def _tell(self, held: Held, lost: threading.Event, ended: Ended) -> RunState:
        """As long as the lease is kept: a database that is away for a while does not lose how a run ended."""
        while not lost.is_set():
            try:
                told = perform(running.end(held, ended.state, ended.reason, again=ended.again), self._act, self._clock)
            except Unavailable:
                self._clock.wait(lost, TELL_AGAIN_S)
                continue
            return told or RunState.LOST
        # It may be done; but who looks at it later must be told that nobody vouched for it until its end.
        try:
            perform(running.end(held, RunState.LOST, "its lease was lost while it ran"), self._act, self._clock)
        except Unavailable:
            # The sweeper finds that nobody renews it.
            return RunState.LOST
        return RunState.LOST


def _done(work: Work, held: Held, stop: threading.Event) -> Ended:
    try:
        return work(held, stop)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is how the work ended
        return Ended(RunState.FAILED, text_of(error))
