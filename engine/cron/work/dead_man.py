"""Ends the process of a run whose lease nobody can renew any more, even where no line of Python runs in it.

Work that holds the interpreter (a regular expression that backtracks, a loop in C) stops all threads of its process:
the one that renews its lease, and the one that would end it. Python's ``faulthandler`` waits in a thread of C, which
needs no interpreter. Each renewal puts off the end; where the work stood then is in the run's log.

A process that does not run at all (frozen, or stopped by a signal) cannot end either, but a program that it has begun
goes on: so each renewal also says until when that may, see :class:`~engine.cron.work.call.LastCall`.
"""

from __future__ import annotations

import faulthandler
import os
import threading
from functools import cache
from math import inf
from typing import Any

from engine.core.clock import Clock, SystemClock
from engine.cron.slots.driving import Act
from engine.cron.slots.running import LOST_AT, Held
from engine.cron.slots.steps import Renew, Step
from engine.cron.work.call import LastCall, RunContext
from engine.cron.work.commands import GRACE_S, POLL_S

#: How long whoever ends a run in the usual way, once its time is over, may take to say so, in seconds.
TOLD_WITHIN_S = 5.0

#: A run and its epoch.
_Lease = tuple[int, int]


class DeadManSwitch:
    """Had by :func:`dead_man`: a process has one such thread, and does one run at a time. Thread-safe."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._held: Held | None = None
        self._context: RunContext | None = None
        self._file = -1
        self._grace_s = 0.0
        #: Whose renewal is under way, and whose was answered last, with until when that has the lease: also of a run
        #: that is not held here yet, for its lease is kept from its beginning on.
        self._asking: _Lease | None = None
        self._renewed: tuple[_Lease, float] | None = None
        #: By the monotonic clock: when the lease, and when the run's own time, is over.
        self._lease_over = self._time_over = inf
        # A child in which that thread is missing would wait for its end for good when it leaves.
        os.register_at_fork(before=self._forks, after_in_parent=self._forked, after_in_child=self._is_child)

    def hold(self, held: Held, context: RunContext, grace_s: float) -> None:
        """From now on the process ends ``grace_s`` after the lease of the run, or after the run's own time, is over."""
        with self._lock:
            self._held, self._context = held, context
            self._file, self._grace_s = context.log.fileno(), grace_s
            self._lease_over = held.sent + held.lease_s
            if self._renewed and self._renewed[0] == self._lease:
                self._lease_over = max(self._lease_over, self._renewed[1])
            timeout_s = context.timeout_s
            self._time_over = self._clock.monotonic() + timeout_s + TOLD_WITHIN_S if timeout_s else inf
            self._arm()

    def let_go(self) -> None:
        """The work has ended."""
        with self._lock:
            self._held = self._context = None
            faulthandler.cancel_dump_traceback_later()

    def keeping(self, act: Act) -> Act:
        """``act``; what it answers to a renewal of the lease that is held here, or will be, puts the end off."""

        def keep(step: Step) -> Any:
            if not isinstance(step, Renew):
                return act(step)
            sent, kept = self._clock.monotonic(), False
            self._asks((step.run, step.epoch))
            try:
                kept = act(step)
            finally:
                self._is_answered(sent + step.ttl_s if kept else None)
            return kept

        return keep

    @property
    def ends_in_s(self) -> float:
        """``inf``: nothing is held."""
        with self._lock:
            return self._left_s() if self._held else inf

    @property
    def _lease(self) -> _Lease | None:
        return (self._held.row.id, self._held.epoch) if self._held else None

    def _asks(self, lease: _Lease) -> None:
        with self._lock:
            self._asking = lease
            self._say_last_call()

    def _is_answered(self, over: float | None) -> None:
        with self._lock:
            asked, self._asking = self._asking, None
            if asked is not None and over is not None:
                self._renewed = asked, over
                # A renewal may still be under way when its run has ended.
                if asked == self._lease:
                    self._lease_over = over
                    self._arm()
            self._say_last_call()

    def _left_s(self) -> float:
        return min(self._lease_over, self._time_over) + self._grace_s - self._clock.monotonic()

    def _last_call(self, held: Held) -> LastCall:
        """All of it is gone when the lease is over, for then another may begin. It is asked later than the worker
        itself would ask; where that waits for the answer to a renewal, no sooner than that would come too late."""
        notice_s = min(GRACE_S, held.lease_s * (1 - LOST_AT) / 2)
        if self._asking == self._lease:
            notice_s = min(notice_s, POLL_S)
        return LastCall(
            min(self._lease_over - notice_s, self._time_over), min(self._lease_over, self._time_over + GRACE_S)
        )

    def _say_last_call(self) -> None:
        if self._held is not None and self._context is not None:
            self._context.last_call = self._last_call(self._held)

    def _arm(self) -> None:
        self._say_last_call()
        # It takes the place of the one before. What is over already ends at once.
        faulthandler.dump_traceback_later(max(0.001, self._left_s()), exit=True, file=self._file)

    def _forks(self) -> None:
        self._lock.acquire()
        faulthandler.cancel_dump_traceback_later()

    def _forked(self) -> None:
        if self._held:
            self._arm()
        self._lock.release()

    def _is_child(self) -> None:
        self._held = self._context = None
        self._lock.release()


@cache
def dead_man() -> DeadManSwitch:
    """That of this process."""
    return DeadManSwitch()
