"""One of the nodes that decide slots: any number run beside each other, and none of them leads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import text_of
from engine.core.errors import Unavailable
from engine.cron.slots.driving import Act, perform
from engine.cron.slots.job import CronJob
from engine.cron.slots.scheduling import HeldOffer, RunSweeper, schedule
from engine.cron.slots.timetable import Timetable

#: How often changed jobs are asked for, open runs are looked through, and the store's clock is read, in seconds.
CHANGES_S, SWEEP_S, CLOCK_S = 1.0, 2.0, 5.0
#: How many jobs are decided in one go, and after how long one that could not be, for a mistake, is tried again.
MOST_JOBS, FAILED_S = 1_000, 30.0
#: The longest and the shortest sleep, and the one after something did not answer.
LONGEST_S, SHORTEST_S, AWAY_S = 0.5, 0.005, 0.5
#: How long before it comes a slot is decided, in seconds: what is left to be done when it has come is its offer.
AHEAD_S = 0.5
#: For how long the slots of a second are decided, and those that were decided before it offered.
BUSY_S = 0.6
#: How soon a sweep is tried again that came before the jobs were known.
UNKNOWN_S = 0.05


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Changed:
    """A job that is new or has another version; ``job`` is ``None`` when it is gone."""

    name: str
    job: CronJob | None
    #: Up to which its slots are decided.
    at: int = 0


class CronNode:
    """One thread calls :meth:`tick`, again and again, and one :meth:`sweep`.

    It decides by no wall clock: the store's is read now and then, and goes on with this process's monotonic one, so
    that a clock which is wrong or steps harms no slot. Whose own is further from the store's than ``most_off_s`` stops
    all the same, and says so: what else a machine with such a clock does, nobody knows. 0: it never stops for that.

    Slots are decided ``ahead_s`` before they come, and their runs offered when they have: thousands may come in the
    same second. Who stops calls :meth:`finish`, for those that are decided and not offered yet.
    """

    def __init__(
        self,
        name: str,
        act: Act,
        changes: Callable[[], Iterable[Changed]],
        store_time: Callable[[], float],
        clock: Clock | None = None,
        *,
        most_off_s: float = 0.0,
        ahead_s: float = 0.0,
    ) -> None:
        self.name = name
        self._ahead_s = ahead_s
        self._most_off_s = most_off_s
        self.jobs: dict[str, CronJob] = {}
        #: Since it started.
        self.opened = 0
        #: What did not answer at the last tick, and at the last sweep; empty when all did.
        self.trouble = self.sweep_trouble = ""
        #: Jobs whose slots cannot be decided, and why: a mistake in one of them, or in us.
        self.failing: dict[str, str] = {}
        self._act = act
        self._changes = changes
        self._store_time = store_time
        self._clock = clock or SystemClock()
        self._table = Timetable()
        #: What is decided and has not come, the first to come first.
        self._later: list[HeldOffer] = []
        self._sweeper = RunSweeper()
        #: Whether all jobs were told once.
        self._knows_jobs = False
        #: When each is to be done again, by the monotonic clock.
        self._changes_at = self._clock_at = float("-inf")
        #: What to add to the monotonic clock for the store's.
        self._offset_s = 0.0

    def tick(self) -> float:
        """Do what is due; after how many seconds to call it again."""
        try:
            self._offer_come()
            more = self._tick()
        except Unavailable as error:
            self.trouble = error.what
            return AWAY_S
        self.trouble = ""
        if more:
            return 0.0
        next_at, pause_s = self._table.next_at(), LONGEST_S
        if next_at is not None:
            pause_s = min(pause_s, next_at - self._ahead_s - self._now_s())
        return max(SHORTEST_S, min(pause_s, self._until_later_s()))

    def finish(self) -> float:
        """Offer what is decided and has come; after how many seconds to call it again, 0 when nothing is left."""
        try:
            self._offer_come()
        except Unavailable as error:
            self.trouble = error.what
            self._later.clear()
        return max(SHORTEST_S, self._until_later_s()) if self._later else 0.0

    def sweep(self) -> float:
        """Look through the runs that are open; after how many seconds to call it again: when an attempt is due at last.

        By another thread than :meth:`tick`, which is not to wait for it when much is open. It does nothing until that
        has learned the jobs: a run is never judged by the policies of a job that is only not known yet.
        """
        if not self._knows_jobs:
            return UNKNOWN_S
        try:
            due_s = perform(self._sweeper.sweep(dict(self.jobs), self._now_s()), self._act, self._clock)
        except Unavailable as error:
            self.sweep_trouble = error.what
            return SWEEP_S
        except Exception as error:  # noqa: BLE001 - whoever sweeps no more ends no run and offers none, for good
            self.sweep_trouble = f"a mistake: {text_of(error)}"
            _log.exception("the open runs could not be looked through")
            return SWEEP_S
        self.sweep_trouble = ""
        return min(self._between_slots(SWEEP_S), max(SHORTEST_S, due_s))

    def _between_slots(self, pause_s: float) -> float:
        """``pause_s``, or a little more: slots come with whole seconds, and thousands of them are not to wait."""
        return pause_s + max(0.0, BUSY_S - (self._now_s() + self._ahead_s + pause_s) % 1)

    def _tick(self) -> bool:
        now = self._clock.monotonic()
        # First, and by whatever clock: sweeping goes by what is known of the jobs.
        if now >= self._changes_at:
            self._learn(self._changes())
            self._knows_jobs = True
            self._changes_at = now + CHANGES_S
        if now >= self._clock_at:
            self._offset_s = self._store_time() - self._clock.monotonic()
            self._refuse_wrong_clock()
            self._clock_at = now + CLOCK_S
        due = self._table.due(self._now_s() + self._ahead_s, MOST_JOBS)
        try:
            self._schedule(due)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - one job's mistake must not keep the others from their slots
            self._one_by_one(due, error)
        return len(due) == MOST_JOBS

    def _schedule(self, due: list[str]) -> None:
        steps = schedule(self._table, due, self.name, self._now_s(), self._ahead_s)
        opened, later = perform(steps, self._act, self._clock)
        self.opened += opened
        self._later = sorted((*self._later, *later), key=lambda each: each.at)

    def _offer_come(self) -> None:
        while self._later and self._later[0].at <= self._clock.monotonic():
            # Once: what is not offered here is found by whoever sweeps.
            offer = self._later.pop(0).offer
            try:
                self._act(offer)
            except Unavailable:
                raise
            except Exception:  # noqa: BLE001 - it is told, and the others are offered
                _log.exception("runs whose slots have come could not be offered: %s", offer.runs)

    def _until_later_s(self) -> float:
        return self._later[0].at - self._clock.monotonic() if self._later else LONGEST_S

    def _refuse_wrong_clock(self) -> None:
        off_s = self._clock.now_ms() / 1000 - self._now_s()
        if self._most_off_s and abs(off_s) > self._most_off_s:
            side = "ahead of" if off_s > 0 else "behind"
            raise Unavailable(
                f"The clock of this node is {abs(off_s):,.0f} s {side} the store's, and "
                f"with more than {self._most_off_s:,.0f} s it decides no slot.",
                remedy="Set the clock of the machine; other nodes decide meanwhile.",
            )

    def _one_by_one(self, due: list[str], error: Exception) -> None:
        alone = False
        for name in due:
            try:
                self._schedule([name])
            except Unavailable:
                raise
            except Exception as mistake:  # noqa: BLE001 - it is told
                alone = True
                self.failing[name] = text_of(mistake)
                self._table.put_off(name, self._now_s() + self._ahead_s + FAILED_S)
                _log.exception("the slots of a job could not be decided", extra={"job": name})
            else:
                self.failing.pop(name, None)
        # Those that failed before, and are not due now, say nothing of it.
        if not alone:
            _log.error("slots could not be decided together, and each by itself could", exc_info=error)

    def _now_s(self) -> float:
        return self._clock.monotonic() + self._offset_s

    def _learn(self, changes: Iterable[Changed]) -> None:
        for changed in changes:
            self.failing.pop(changed.name, None)
            if changed.job is None:
                self._table.drop(changed.name)
                self.jobs.pop(changed.name, None)
            else:
                self._table.put(changed.job, changed.at)
                self.jobs[changed.name] = changed.job
