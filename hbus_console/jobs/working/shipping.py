"""Brings the log of a run from its file into the database, while the run goes on and after its worker was killed."""

from __future__ import annotations

import threading
from pathlib import Path

import structlog
from django.conf import settings

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of
from engine.cron.work.log_spool import LogSpool, left_behind
from hbus_console.database import fresh_connections, is_away
from hbus_console.jobs.log_pieces import append_piece
from hbus_console.jobs.models import LogPiece

#: How often the file is read while the run goes on, in seconds.
EVERY_S = 0.5

_log = structlog.get_logger(__name__)


def spool_folder() -> Path:
    """Where the logs of this machine's runs wait to be shipped."""
    return Path(settings.STATE) / "runs"


class LogShipper:
    """Ships one file. :meth:`ship` is called by one thread at a time; :meth:`start` has one do it."""

    def __init__(self, spool: LogSpool, clock: Clock | None = None) -> None:
        self._spool = spool
        self._clock = clock or SystemClock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        #: What was read and is not in the database yet, and whether it is known how far another has read.
        self._held = ""
        self._placed = False

    def start(self) -> LogShipper:
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()
        return self

    def finish(self) -> None:
        """Ship what is left, and remove the file; where that cannot be it stays, for another to ship."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        if self.ship(last=True):
            self._spool.remove()
        else:
            self._spool.close()

    def ship(self, *, last: bool = False) -> bool:
        """All that is new; whether the database took it. Whatever hinders it, the run goes on, and ends as it does."""
        try:
            if not self._placed:
                self._go_on()
            while text := self._held or self._spool.read(last=last):
                self._held = text
                self._insert(text)
                self._held = ""
        except Exception as error:  # noqa: BLE001 - it is told
            tell = _log.warning if is_away(error) else _log.exception
            tell("the log of a run is not shipped", run=self._spool.run, error=words_of(error))
            return False
        return True

    def _go_on(self) -> None:
        """Behind what is there of this attempt, when its worker was killed while it shipped."""
        spool = self._spool
        if spool.secrets is None:
            # Only for what a killed worker left: the kinds of work weigh 8 MB in each process that knows them.
            from hbus_console.jobs.services.run_secrets import secrets_of_run

            spool.secrets = secrets_of_run(spool.run)
        newest = LogPiece.objects.filter(run=spool.run, attempt=spool.attempt).order_by("-seq").first()
        if newest is not None:
            spool.go_on_from(newest.upto)
        self._placed = True

    def _insert(self, text: str) -> None:
        spool = self._spool
        append_piece(spool.run, spool.attempt, text, self._clock.now_ms() * 1_000, spool.at)

    def _run(self) -> None:
        while not self._clock.wait(self._stopped, EVERY_S):
            with fresh_connections():
                self.ship()


def ship_left_behind(folder: Path) -> int:
    """The logs of attempts whose workers were killed; how many files were shipped."""
    shipped = 0
    for spool in left_behind(folder):
        LogShipper(spool).finish()
        shipped += 1
    return shipped
