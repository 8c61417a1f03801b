"""The database's part of the slot protocol: it judges what happens once.

Each step is one transaction, and none rests on a lock outside it: a row is written only where it is still as expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import time

from django.db import connection, transaction
from django.db.models import QuerySet

from engine.core.error_text import words_of
from engine.core.errors import Unavailable
from engine.cron.slots.steps import (
    Again,
    Begin,
    Cursor,
    End,
    GiveUp,
    Opened,
    OpenRuns,
    ReadCursors,
    ReadOpen,
    ReadRun,
    RunRow,
    RunState,
)
from hbus_console.database import is_away
from hbus_console.jobs import opening
from hbus_console.jobs.models import REASON_LIMIT, JobCursor, JobRun

_COLUMNS = ("pk", "job", "slot", "state", "epoch", "attempt", "changed_us")


def database_time() -> float:
    """The clock of the database, in seconds since the epoch; SQLite has that of this machine."""
    if connection.vendor != "postgresql":
        return time()
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())")
        return float(cursor.fetchone()[0])


class SlotJudge:
    """Answers the steps that go to the database. Thread-safe, as Django's connections are.

    Every method raises ``Unavailable`` when the database is away; what was asked may have been done then.
    """

    def __init__(self, now_s: Callable[[], float] = database_time) -> None:
        self._now_s = now_s

    def read_cursors(self, step: ReadCursors) -> list[Cursor]:
        with asked():
            return [_cursor(row) for row in JobCursor.objects.filter(job__in=step.jobs)]

    def open_runs(self, step: OpenRuns) -> Opened:
        with asked(), transaction.atomic():
            moved = opening.move_cursors(
                [opening.CursorMove(each.cursor, each.decisions[-1].slot) for each in step.openings]
            )
            now_us = self._now_us()
            decided = [
                opening.Decided(each.cursor.job, each.cursor.version, decision.slot, _fitting(decision.skipped))
                for each in step.openings
                if each.cursor.job in moved
                for decision in each.decisions
            ]
            ids = opening.insert_runs(decided, step.node, now_us)
            rows = (
                RunRow(ids[each.job, each.slot], each.job, each.slot, RunState.CLAIMED, 0, 1, now_us / 1_000_000)
                for each in decided
                if not each.skipped and (each.job, each.slot) in ids
            )
            cursors = (replace(each.cursor, at=each.decisions[-1].slot) for each in step.openings)
            return Opened(tuple(each for each in cursors if each.job in moved), tuple(rows))

    def read_run(self, step: ReadRun) -> RunRow | None:
        with asked():
            found = JobRun.objects.filter(pk=step.run).only(*_COLUMNS).first()
            return None if found is None else _row(found)

    def begin(self, step: Begin) -> bool:
        with asked(), transaction.atomic():
            run = JobRun.objects.select_for_update().filter(pk=step.run, state=RunState.CLAIMED).only(*_COLUMNS).first()
            if run is None or step.epoch <= run.epoch:
                return False
            now_us = self._now_us()
            if step.skip_overlaps and _another_runs(run):
                # A run that began once and was lost has not been skipped.
                state = RunState.SKIPPED if run.attempt == 1 else RunState.LOST
                why = "another run of the job was running"
                return not _write(run, state, changed_us=now_us, ended_us=now_us, reason=why)
            begun = {"epoch": step.epoch, "owner": step.owner, "begun_us": now_us, "changed_us": now_us}
            return _write(run, RunState.RUNNING, **begun)

    def end(self, step: End) -> bool:
        with asked():
            now_us = self._now_us()
            ours = JobRun.objects.filter(pk=step.run, epoch=step.epoch)
            ended = {"state": step.state, "reason": _fitting(step.reason), "changed_us": now_us, "ended_us": now_us}
            return _changed(ours.filter(state=RunState.RUNNING), **ended) or ours.filter(state=step.state).exists()

    def read_open(self, step: ReadOpen) -> tuple[list[RunRow], float]:
        with asked():
            return [_row(run) for run in JobRun.objects.filter(ended_us=None).only(*_COLUMNS)], self._now_s()

    def give_up(self, step: GiveUp) -> bool:
        with asked():
            now_us = self._now_us()
            return _changed(
                _as_seen(step.seen), state=step.state, reason=_fitting(step.reason), changed_us=now_us, ended_us=now_us
            )

    def again(self, step: Again) -> bool:
        seen = step.seen
        with asked():
            lost = JobRun.objects.filter(pk=seen.id, state=RunState.LOST, epoch=seen.epoch, attempt=seen.attempt)
            claimed = {"state": RunState.CLAIMED, "attempt": seen.attempt + 1, "ended_us": None, "begun_us": None}
            return _changed(lost, **claimed, changed_us=self._now_us())

    def _now_us(self) -> int:
        return round(self._now_s() * 1_000_000)


@contextmanager
def asked() -> Iterator[None]:
    """Around what is asked of the database: raises ``Unavailable`` when it is away."""
    try:
        yield
    except Exception as error:
        if is_away(error):
            raise Unavailable(
                f"The database cannot be asked: {words_of(error)}.", remedy="It is tried again."
            ) from error
        raise


def _fitting(reason: str) -> str:
    return reason if len(reason) <= REASON_LIMIT else f"{reason[: REASON_LIMIT - 1]}…"


def _another_runs(run: JobRun) -> bool:
    """Whoever asks this at the same time for another run of the job waits here, and sees what becomes of this one."""
    JobCursor.objects.select_for_update().filter(job=run.job).first()
    return JobRun.objects.filter(job=run.job, ended_us=None, state=RunState.RUNNING).exclude(pk=run.pk).exists()


def _as_seen(seen: RunRow) -> QuerySet[JobRun]:
    return JobRun.objects.filter(pk=seen.id, state=seen.state, epoch=seen.epoch, attempt=seen.attempt)


def _write(run: JobRun, state: RunState, **columns: object) -> bool:
    """In the transaction that holds the row."""
    return _changed(JobRun.objects.filter(pk=run.pk), state=state, **columns)


def _changed(rows: QuerySet[JobRun], **columns: object) -> bool:
    return rows.update(**columns) == 1


def _cursor(row: JobCursor) -> Cursor:
    return Cursor(row.job, row.version, row.at)


def _row(run: JobRun) -> RunRow:
    state = RunState(run.state)
    return RunRow(run.pk, run.job, run.slot, state, run.epoch, run.attempt, run.changed_us / 1_000_000)
