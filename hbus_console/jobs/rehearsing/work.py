"""The work of a run in a rehearsal: done at once by its kind; what it waits for is added up, and passes afterwards."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from engine.core.clock import Clock
from engine.cron.slots.running import Held
from engine.cron.slots.worker import Ended
from engine.cron.work.call import RunContext
from engine.cron.work.log_spool import LogSpool
from hbus_console.jobs.rehearsing.mishaps import Killed
from hbus_console.jobs.working.shipping import LogShipper, spool_folder
from hbus_console.jobs.working.work import RunWork, do_work


@dataclass(slots=True)
class PassedTime:
    """What the work has waited for so far, in seconds."""

    seconds: float = 0.0


class RehearsedContext(RunContext):
    """Time passes in it by what the work waits for. ``dies``: its process is killed when the work first waits."""

    def __init__(self, work: RunWork, log: LogSpool, passed: PassedTime, *, dies: bool) -> None:
        super().__init__(work.call, log, work.spec.timeout_s)
        self._passed = passed
        self._dies = dies

    def wait(self, seconds: float) -> None:
        self.is_stopped(seconds)
        self.raise_if_stopped()

    def is_stopped(self, within_s: float = 0.0) -> bool:
        if self.timeout_s and self._passed.seconds + within_s > self.timeout_s:
            within_s = self.timeout_s - self._passed.seconds
            self.stop(f"it took longer than {self.timeout_s:,.0f} s")
        self._passed.seconds += within_s
        if self._dies and within_s:
            raise Killed
        return super().is_stopped()


@dataclass(frozen=True, slots=True)
class DoneWork:
    """What came of it, after so many seconds; ``None``: its process was killed."""

    ended: Ended | None
    after_s: float


def do(held: Held, clock: Clock, *, dies: bool) -> DoneWork:
    """Do the work of a run that was begun, and keep its log and its summary."""
    spool, passed = LogSpool(spool_folder(), held.row.id, held.row.attempt), PassedTime()
    ended: Ended | None
    try:
        ended = do_work(held, spool, lambda work: nullcontext(RehearsedContext(work, spool, passed, dies=dies)))
    except Killed:
        ended = None
    finally:
        LogShipper(spool, clock).finish()
    return DoneWork(ended, passed.seconds)
