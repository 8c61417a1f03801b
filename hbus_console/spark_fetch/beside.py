"""A fetch beside a console: begins once all roles of that are ready, tells how far it is, and ends with it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TypeGuard

from engine.core.clock import Clock, SystemClock
from hbus_console.spark_fetch import progress
from hbus_console.spark_fetch.fetch import TURN_S, Fetch
from hbus_console.spark_fetch.progress import Living, Phase, Progress
from hbus_console.supervisor import state
from hbus_console.supervisor.console import Console, LogFile

_NAME = "spark"
_TONE = 35
#: The last in the line for processors.
_NICE = 19


class Ended(Exception):
    """Nobody wants the fetch any more: its ``make run`` has ended, or is being ended."""


class Beside:
    """One fetch beside the supervisor that is process ``pid``, of the installation in ``folder``.

    Raises ``psutil.NoSuchProcess`` where that has ended already.
    """

    def __init__(self, folder: Path, pid: int, console: Console, clock: Clock | None = None) -> None:
        self._folder = folder
        self._console = console
        self._clock = clock or SystemClock()
        self._supervisor = Living.of(pid)
        self._fetch = Living.of(os.getpid())
        self._log = LogFile(folder, _NAME, self.say)
        self._noted: Progress | None = None
        self._unnoted = False

    def run(self, fetch: Fetch) -> bool:
        """Whether Spark is there afterwards. Raises :class:`Ended`, and then no longer claims to fetch."""
        while not self._all_are_ready():
            self.pause(TURN_S)
        os.nice(_NICE)
        try:
            self.say("Spark is being fetched beside the console; `make run SPARK=no` leaves it alone.")
            failed = fetch.run(self, os.environ)
            if failed:
                self._note(Phase.FAILED, said=failed)
                self.say(f"Spark could not be fetched: {failed.rstrip('.')}. The next `make run` tries again.")
            else:
                self._note(Phase.READY)
                self.say("Spark is ready.")
        except BaseException:
            progress.forget(self._folder)
            raise
        finally:
            self._log.close()
        return not failed

    def say(self, line: str) -> None:
        """On the terminal."""
        self._console.show(_NAME, _TONE, line)

    def line(self, text: str) -> None:
        self._log.write(text)

    def phase(self, phase: Phase, package: str = "", done: int = 0, total: int = 0) -> None:
        self._check()
        self._note(phase, package, done, total)

    def pause(self, seconds: float) -> None:
        self._check()
        time.sleep(seconds)

    def _check(self) -> None:
        snapshot = state.read(self._folder)
        # Its roles take some seconds to end: who has the terminal back finds no fetch there.
        stopping = self._is_ours(snapshot) and any(role.state == state.STOPPING for role in snapshot.roles)
        if stopping or not self._supervisor.is_there():
            raise Ended

    def _all_are_ready(self) -> bool:
        """Whether each role has been ready once: what comes later takes no time from the start."""
        snapshot = state.read(self._folder)
        return self._is_ours(snapshot) and bool(snapshot.roles) and all(role.ready_ms for role in snapshot.roles)

    def _is_ours(self, snapshot: state.Snapshot | None) -> TypeGuard[state.Snapshot]:
        """Not that of a former start."""
        return snapshot is not None and snapshot.pid == self._supervisor.pid

    def _note(self, phase: Phase, package: str = "", done: int = 0, total: int = 0, said: str = "") -> None:
        """A disk that takes nothing is told once: Spark need not wait for it."""
        now = Progress(phase, self._fetch, self._supervisor, package, done, total, said)
        if now == self._noted:
            return
        try:
            progress.write(self._folder, now)
        except OSError as error:
            if not self._unnoted:
                self.say(f"How far it is cannot be noted ({error.strerror or error}). Make room on its disk.")
            self._unnoted = True
        else:
            self._noted, self._unnoted = now, False
