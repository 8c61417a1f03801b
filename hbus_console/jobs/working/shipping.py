"""Brings the log of a run from its file into the database, while the run goes on and after its worker was killed."""

from __future__ import annotations

import threading
from pathlib import Path

import structlog
from django.conf import settings
from django.db import transaction

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of
from engine.cron.work.log_spool import LogSpool, left_behind
from hbus_console.database import fresh_connections, is_away
from hbus_console.jobs.models import LogPiece

#: How often the file is read while the run goes on, in seconds.
EVERY_S = 0.5
#: Of a run's log the first pieces are kept, and the last ones; between them it is cut. A piece is 16 KiB at most.
HEAD, TAIL = 16, 112

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
        #: What was read and is not in the database yet, and the place of the next piece; 0 before it is known.
        self._held = ""
        self._next = 0

    def start(self) -> LogShipper:
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()
        return self

    def finish(self) -> None:
        """Ship what is left, and remove the file; where the database is away it stays, for another to ship."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        if self.ship(last=True):
            self._spool.remove()
        else:
            self._spool.close()

    def ship(self, *, last: bool = False) -> bool:
        """All that is new; whether the database took it."""
        try:
            if not self._next:
                self._go_on()
            while text := self._held or self._spool.read(last=last):
                self._held = text
                self._insert(text)
                self._held = ""
        except Exception as error:
            if not is_away(error):
                raise
            _log.warning("the log of a run is not shipped", run=self._spool.run, error=words_of(error))
            return False
        return True

    def _go_on(self) -> None:
        """Behind what is there: of this attempt too, when its worker was killed while it shipped."""
        newest = LogPiece.objects.filter(run=self._spool.run).order_by("-seq").first()
        self._next = 1 if newest is None else newest.seq + 1
        if newest is not None and newest.attempt == self._spool.attempt:
            self._spool.go_on_from(newest.upto)

    def _insert(self, text: str) -> None:
        run, spool = self._spool.run, self._spool
        pieces = LogPiece.objects.filter(run=run)
        now_us = self._clock.now_ms() * 1_000
        with transaction.atomic(using=pieces.db):
            LogPiece.objects.create(
                run=run, seq=self._next, attempt=spool.attempt, at_us=now_us, text=text, upto=spool.at
            )
            pieces.filter(seq__gt=HEAD, seq__lte=self._next - TAIL).delete()
        self._next += 1

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
