"""Duties: work that some process must do every now and then, shared between processes by leases."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import text_of
from engine.core.errors import OutOfConnections, Unavailable
from engine.core.leases import LeaseSource, Ownership

#: A duty that failed is tried again after so many seconds, or sooner.
AGAIN_S = 30.0
#: Seconds between two tries to take over a duty that another process does.
TAKEOVER_S = 2.0
#: A tick that has lasted for so long hangs.
HUNG_AFTER_S = 60.0

_log = logging.getLogger(__name__)


class Duty(Protocol):
    """Something to be done every ``interval_s`` seconds, sooner where it failed.

    ``tick`` is called from one thread and may raise.
    """

    @property
    def name(self) -> str: ...

    @property
    def interval_s(self) -> float: ...

    def tick(self) -> None: ...


@dataclass(frozen=True)
class DutyStatus:
    """How one duty stands in this process."""

    name: str
    #: ``running`` here, ``hung`` here, ``elsewhere`` (another process does it), ``store lost``,
    #: ``out of connections``, or ``stopped``.
    state: str
    epoch: int
    ticks: int
    failures: int
    #: Of the last tick, or of its lease. Empty once a tick has succeeded again, the lease has answered again, or
    #: another process does it.
    last_error: str
    #: Wall time of the end of the last tick in epoch milliseconds; 0 before the first.
    last_tick_ms: int
    #: How long the last tick took.
    last_tick_s: float
    #: Seconds since the loop last moved; large while a tick hangs.
    loop_age_s: float


class DutyRunner:
    """Runs each duty on its own thread, under the lease of its name where ``leases`` is given.

    A tick that hangs holds up no other duty: its lease is no longer renewed, so that another process takes the duty
    over, and it says so in :meth:`status`. When it returns after all, its duty goes on as if it had lost the lease.
    An exception in a tick is logged, counted and shown in :meth:`status`; it never ends the thread. Two runners with
    the same duties share them: each duty runs in one of them, and in the other when the first has gone. Each tick runs
    inside a context that ``around`` makes, on the duty's thread.
    """

    def __init__(
        self,
        duties: Sequence[Duty],
        *,
        leases: LeaseSource | None = None,
        clock: Clock | None = None,
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._clock = clock or SystemClock()
        self._stop = threading.Event()
        self._loops = [
            _Loop(duty, leases(f"duty:{duty.name}") if leases else None, self._clock, self._stop, around)
            for duty in duties
        ]
        self._renewals_over = threading.Event()
        self._renewer_ended = threading.Event()
        self._renewer_ended.set()

    def start(self) -> None:
        """Start all threads. A runner starts once."""
        for loop in self._loops:
            loop.thread.start()
        leased = [loop for loop in self._loops if loop.lease is not None]
        if leased:
            self._renewer_ended.clear()
            threading.Thread(target=self._renew, args=(leased,), name="hbus-duty-leases", daemon=True).start()

    def stop(self, drain_s: float = 10.0) -> bool:
        """Let running ticks end, for at most ``drain_s`` seconds in all, and give the leases up.

        Returns whether all have ended.
        """
        self._stop.set()
        deadline = self._clock.monotonic() + drain_s
        for loop in self._loops:
            self._clock.wait(loop.ended, deadline - self._clock.monotonic())
        # Leases are renewed until the last tick has ended: a drain must not let a second process in.
        self._renewals_over.set()
        # A renewal may hang in its store for longer than anybody waits here; what it renews has been given up.
        self._clock.wait(self._renewer_ended, deadline - self._clock.monotonic())
        return all(event.is_set() for event in (self._renewer_ended, *(loop.ended for loop in self._loops)))

    def status(self) -> list[DutyStatus]:
        """One line a duty."""
        return [loop.status() for loop in self._loops]

    def _renew(self, loops: Sequence[_Loop]) -> None:
        pause_s = min(loop.lease.ttl_s for loop in loops if loop.lease) / 3
        try:
            while not self._clock.wait(self._renewals_over, pause_s):
                for loop in loops:
                    loop.renew()
            for loop in loops:
                loop.renewed.wait()
        finally:
            self._renewer_ended.set()


class _Loop:
    """One duty's thread."""

    def __init__(
        self,
        duty: Duty,
        lease: Ownership | None,
        clock: Clock,
        stop: threading.Event,
        around: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._duty = duty
        self._around = around
        self.lease = lease
        self._clock = clock
        self._stop = stop
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"hbus-duty-{duty.name}", daemon=True)
        self._state = "elsewhere" if lease else "running"
        self._ticks = 0
        self._failures = 0
        self._last_error = ""
        self._lease_error = ""
        self._last_tick_ms = 0
        self._last_tick_s = 0.0
        self._moved = clock.monotonic()
        #: When the tick that runs now began.
        self._begun: float | None = None
        #: Set while no renewal is under way.
        self.renewed = threading.Event()
        self.renewed.set()

    @property
    def hangs(self) -> bool:
        begun = self._begun
        return begun is not None and self._clock.monotonic() - begun >= HUNG_AFTER_S

    def status(self) -> DutyStatus:
        return DutyStatus(
            name=self._duty.name,
            state="stopped" if self.ended.is_set() else "hung" if self.hangs else self._state,
            epoch=self.lease.epoch if self.lease else 0,
            ticks=self._ticks,
            failures=self._failures,
            last_error=self._lease_error or self._last_error,
            last_tick_ms=self._last_tick_ms,
            last_tick_s=self._last_tick_s,
            loop_age_s=self._clock.monotonic() - self._moved,
        )

    def renew(self) -> None:
        """Renew the lease aside, unless that is under way. Called from the renewing thread."""
        if self.lease is None or not self.lease.held or not self.renewed.is_set():
            return
        if self.hangs:
            _log.warning("duty %s hangs: its lease is left to another process", self._duty.name)
            return
        self.renewed.clear()
        # One that hangs in its store must not let the leases of all the others run out.
        threading.Thread(target=self._renew, args=(self.lease,), name=f"{self.thread.name}-lease", daemon=True).start()

    def _renew(self, lease: Ownership) -> None:
        try:
            if not lease.renew():
                _log.warning("duty %s was taken over by another process", self._duty.name)
            self._lease_error = ""
        except Exception as error:  # noqa: BLE001
            # The lease stays ours until it runs out; the next renewal may succeed.
            self._lease_error = text_of(error)
        finally:
            self.renewed.set()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._moved = self._clock.monotonic()
                if self._owned():
                    self._rest(self._tick())
                else:
                    self._clock.wait(self._stop, TAKEOVER_S)
        finally:
            self._release()
            self.ended.set()

    def _rest(self, pause_s: float) -> None:
        """Until the next tick. A lease that ran out meanwhile, as while its store was away, is taken anew: what is
        seldom done would tell for hours that its store cannot be reached.
        """
        ends = self._clock.monotonic() + pause_s
        while not self._stop.is_set() and (left_s := ends - self._clock.monotonic()) > 0:
            if self.lease is None:
                self._clock.wait(self._stop, left_s)
                continue
            self._clock.wait(self._stop, min(left_s, TAKEOVER_S))
            lost = not self.lease.held and not self._stop.is_set()
            if lost and not self._owned() and self._state == "elsewhere":
                return

    def _owned(self) -> bool:
        if self.lease is None:
            return True
        try:
            owned = self.lease.held or bool(self.lease.acquire())
        except Exception as error:  # noqa: BLE001
            # Whatever the lease's store raises, the loop goes on and says so in its status.
            self._state = "out of connections" if isinstance(error, OutOfConnections) else "store lost"
            self._lease_error = text_of(error)
            return False
        self._lease_error = ""
        if not owned:
            # How it fares is told by whoever does it now.
            self._last_error = ""
        self._state = "running" if owned else "elsewhere"
        return owned

    def _tick(self) -> float:
        begun = self._begun = self._clock.monotonic()
        try:
            with self._around():
                self._duty.tick()
            self._last_error = ""
        except BaseException as error:  # noqa: BLE001
            # A duty is foreign code: even a SystemExit raised in it must not end its thread unseen.
            self._failures += 1
            self._last_error = text_of(error)
            if isinstance(error, Unavailable):
                _log.warning("duty %s: %s", self._duty.name, error)
            else:
                _log.exception("duty %s failed", self._duty.name)
        self._begun = None
        self._ticks += 1
        self._last_tick_ms = self._clock.now_ms()
        self._last_tick_s = self._clock.monotonic() - begun
        # What is seldom done is told to fail for no longer than it does.
        return min(self._duty.interval_s, AGAIN_S) if self._last_error else self._duty.interval_s

    def _release(self) -> None:
        if self.lease is None:
            return
        try:
            self.lease.release()
        except Exception as error:  # noqa: BLE001
            # It runs out by itself; only the takeover is slower.
            self._lease_error = text_of(error)
