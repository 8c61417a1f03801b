"""Keeps what the driver of a run's Spark application tells, and finds it again."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import structlog

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of
from engine.core.prepared import prepared
from engine.cron.work.call import RunCall
from engine.cron.work.spark.progress import SparkProgress
from hbus_console.database import fresh_connections, is_away
from hbus_console.jobs.run_progress import RunProgress

#: Where nothing but the memory has changed, it is kept again after so many seconds.
AGAIN_S = 10.0

_log = structlog.get_logger(__name__)


class ProgressKeeper:
    """That of one attempt. Called by one thread at a time."""

    def __init__(self, call: RunCall, clock: Clock | None = None) -> None:
        self._call = call
        self._clock = clock or SystemClock()
        self._kept: SparkProgress | None = None
        self._again = 0.0

    def keep(self, progress: SparkProgress) -> None:
        """In the place of what it told before. Whatever hinders it, the run goes on, and the next one may be kept."""
        same = msgspec.structs.replace(progress, memory_bytes=None)
        now = self._clock.monotonic()
        if same == self._kept and now < self._again:
            return
        try:
            with fresh_connections():
                self._write(progress)
        except Exception as error:  # noqa: BLE001 - it is told
            tell = _log.warning if is_away(error) else _log.exception
            tell("the progress of a run is not kept", run=self._call.run, error=words_of(error))
            return
        self._kept, self._again = same, now + AGAIN_S

    def _write(self, progress: SparkProgress) -> None:
        call = self._call
        row = RunProgress(
            run=call.run,
            epoch=call.epoch,
            attempt=call.attempt,
            at_us=self._clock.now_ms() * 1_000,
            said=msgspec.to_builtins(progress),
        )
        names = ["epoch", "attempt", "at_us", "said"]
        older = RunProgress.objects.filter(run=call.run, epoch__lte=call.epoch)
        if not older.update(**{name: getattr(row, name) for name in names}):
            # Where there is one nevertheless, it is of a newer epoch, and stays.
            RunProgress.objects.bulk_create([row], ignore_conflicts=True)


class KeptProgress(NamedTuple):
    """What an attempt told last, and when, in microseconds since the epoch."""

    attempt: int
    at_us: int
    said: SparkProgress


def progress_of(run: int) -> KeptProgress | None:
    """That of the run of that number; ``None`` where it told nothing, or another release of hbus kept it otherwise."""
    row = RunProgress.objects.filter(run=run).first()
    if row is None:
        return None
    try:
        return KeptProgress(row.attempt, row.at_us, msgspec.convert(row.said, type=prepared(SparkProgress)))
    except msgspec.ValidationError:
        return None
