"""The database's part of the slot protocol: it judges what happens once.

Each step is one transaction, and none rests on a lock outside it: a row is written only where it is still as expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from time import time

from django.db import connection, transaction
from django.db.models import Q, QuerySet

from engine.core.error_text import shortened, words_of
from engine.core.errors import Unavailable
from engine.cron.slots.job import JobPolicy, Overlap
from engine.cron.slots.overlap import REPLACED, STOPPED, OverlapVerdict, judged_overlap, not_begun
from engine.cron.slots.parts import WHOLE, host_of_owner, may_do, node_of
from engine.cron.slots.steps import (
    OPEN,
    Begin,
    Beginning,
    CancelledRuns,
    Cursor,
    End,
    Ending,
    GiveUp,
    Opened,
    OpenRuns,
    ReadCursors,
    ReadOpen,
    ReadRun,
    RunRow,
    RunState,
)
from hbus_console.database import fresh_connections, is_away
from hbus_console.jobs import opening
from hbus_console.jobs.columns import REASON_LIMIT
from hbus_console.jobs.following import open_followers
from hbus_console.jobs.models import JobAttempt, JobCursor, JobRun
from hbus_console.jobs.tags import full_tags, next_of_tags

_COLUMNS = (
    "pk",
    "job",
    "slot",
    "state",
    "epoch",
    "attempt",
    "changed_us",
    "waits",
    "not_before_us",
    "last_end",
    "kind",
    "part",
    "decided_us",
)


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
                opening.Decided(
                    each.cursor.job,
                    each.cursor.version,
                    decision.slot,
                    _fitting(decision.skipped),
                    (decision.slot + decision.wait_s) * 1_000_000 if decision.wait_s else 0,
                    decision.part,
                )
                for each in step.openings
                if each.cursor.job in moved
                for decision in each.decisions
            ]
            ids = opening.insert_runs(decided, step.node, now_us)
            rows = (
                RunRow(
                    run,
                    each.job,
                    each.slot,
                    RunState.CLAIMED,
                    0,
                    1,
                    now_us / 1_000_000,
                    not_before_s=each.not_before_us / 1_000_000,
                    part=each.part,
                )
                for each in decided
                if not each.skipped and (run := ids.get(opening.PlaceOfRun(each.job, each.slot, each.part)))
            )
            cursors = (each.cursor._replace(at=each.decisions[-1].slot) for each in step.openings)
            return Opened(tuple(each for each in cursors if each.job in moved), tuple(rows))

    def read_run(self, step: ReadRun) -> RunRow | None:
        with asked():
            found = JobRun.objects.filter(pk=step.run).only(*_COLUMNS).first()
            return None if found is None else row_of(found)

    def begin(self, step: Begin) -> Beginning:
        if step.policy.elsewhere:
            return Beginning.REFUSED
        with asked(), transaction.atomic():
            if step.policy.limit or step.policy.divided:
                _lock_job_of(step.run)
            run = _locked(step.run, _COLUMNS)
            if run is None or run.state != RunState.CLAIMED or step.epoch <= run.epoch:
                return Beginning.REFUSED
            if not may_do(step.owner, run.part):
                return Beginning.REFUSED
            now_us = self._now_us()
            if now_us < run.not_before_us:
                return Beginning.WAITS
            verdict, tags = judged_overlap(row_of(run), _beside(run, step), step.policy), step.policy.tags
            if verdict.beginning is Beginning.BEGUN and not _is_free(run, step) and full_tags(tags, lock=True):
                verdict = OverlapVerdict(Beginning.WAITS)
            self._clear_the_way(verdict, now_us)
            if verdict.beginning is Beginning.BEGUN:
                begun = {"epoch": step.epoch, "owner": step.owner, "begun_us": now_us, "changed_us": now_us}
                if run.attempt == 1:
                    begun["first_late_us"] = max(0, now_us - run.due_us)
                _write(run, state=RunState.RUNNING, waits=False, **begun)
                JobAttempt.objects.create(
                    run=run.pk, number=run.attempt, epoch=step.epoch, owner=step.owner, begun_us=now_us
                )
            elif verdict.ends:
                _finish(run, *not_begun(row_of(run), RunState.SKIPPED, verdict.ends), now_us)
            elif verdict.beginning is Beginning.WAITS:
                _write(run, waits=True)
            return verdict.beginning

    def end(self, step: End) -> Ending:
        with asked(), transaction.atomic():
            if step.policy.limit or step.policy.divided:
                _lock_job_of(step.run)
            run = _locked(step.run, (*_COLUMNS, "cancel_us", "cancel_reason"))
            if run is None or run.epoch != step.epoch:
                return Ending()
            if run.state == RunState.RUNNING:
                _write(run, **self._by_end(run, step))
                run.refresh_from_db(fields=["state", "not_before_us", "last_end"])
                became = step.state if run.state == RunState.CLAIMED else RunState(run.state)
                _end_attempt(run.pk, step.epoch, became, step.reason, self._now_us())
            cancelled = run.state == RunState.CANCELLED and step.state is RunState.FAILED
            is_again = run.state == RunState.CLAIMED and run.last_end == step.state
            if not (cancelled or is_again or run.state == step.state):
                return Ending()
            itself = (run.pk,) if is_again and not run.not_before_us else ()
            waited = _next(run, step.policy) if step.policy.limit else {}
            waited |= next_of_tags(step.policy.tags)
            followers = open_followers(run, run.state, self._now_us())
            # What waits for a run on one node is for that node too, or for any.
            only_on = {each: node for each in (*waited, *itself) if (node := node_of(waited.get(each, run.part)))}
            return Ending(RunState(run.state), (*waited, *itself, *followers), only_on)

    def cancelled(self, step: CancelledRuns) -> set[int]:
        # The thread that asks has no unit of work of its own.
        with asked(), fresh_connections():
            asked_to_stop = JobRun.objects.filter(pk__in=step.runs).exclude(cancel_us=None)
            return set(asked_to_stop.values_list("pk", flat=True))

    def request_cancel(self, run: int, why: str, *, at_once: bool = False) -> bool:
        """Have a run stopped; ``False`` for one that is over. What is only claimed is cancelled at once.

        One that runs is asked to stop: it ends as cancelled for ``why``, unless it is done before, or its lease is
        lost. The first who asks is told of. ``at_once``: no worker has it who would hear, and it is over now.
        """
        with asked(), transaction.atomic():
            if JobRun.objects.filter(pk=run).exclude(part=WHOLE).exists():
                _lock_job_of(run)
            found = _locked(run, (*_COLUMNS, "cancel_us"))
            if found is None or found.state not in OPEN:
                return False
            now_us = self._now_us()
            if found.state == RunState.CLAIMED or at_once:
                _finish(found, RunState.CANCELLED, why, now_us)
            elif found.cancel_us is None:
                _write(found, cancel_us=now_us, cancel_reason=_fitting(why))
            return True

    def read_open(self, step: ReadOpen) -> tuple[list[RunRow], float]:
        with asked():
            return [row_of(run) for run in JobRun.objects.filter(ended_us=None).only(*_COLUMNS)], self._now_s()

    def give_up(self, step: GiveUp) -> bool:
        with asked(), transaction.atomic():
            if step.seen.part:
                _lock_job_of(step.seen.id)
            now_us = self._now_us()
            row, ended = _as_seen(step.seen), _ended(step.state, step.reason, now_us)
            further = _further(step.seen.attempt, step.state, now_us) | {"reason": ended["reason"]}
            again = step.again and _changed(row.filter(cancel_us=None), **further)
            given_up = again or _changed(row, **ended)
            if given_up and step.seen.state is RunState.RUNNING:
                _end_attempt(step.seen.id, step.seen.epoch, step.state, step.reason, now_us)
            if given_up and not again:
                open_followers(_known(step.seen), step.state, now_us)
            return given_up

    def _by_end(self, run: JobRun, step: End) -> dict[str, object]:
        now_us = self._now_us()
        if run.cancel_us is not None:
            failed = step.state is RunState.FAILED
            return _ended(*((RunState.CANCELLED, run.cancel_reason) if failed else (step.state, step.reason)), now_us)
        again_s = step.again_s(run.attempt)
        if again_s is None:
            return _ended(step.state, step.reason, now_us)
        not_before_us = now_us + round(again_s * 1_000_000) if again_s else 0
        return _further(run.attempt, step.state, now_us, not_before_us) | {"reason": _fitting(step.reason)}

    def _clear_the_way(self, verdict: OverlapVerdict, now_us: int) -> None:
        running = JobRun.objects.filter(pk__in=verdict.cancelled, state=RunState.RUNNING, cancel_us=None)
        running.update(cancel_us=now_us, cancel_reason=STOPPED)
        for each in verdict.replaced:
            state, why = not_begun(each, RunState.SKIPPED, REPLACED)
            # Whoever gives it up has not waited for us.
            if _changed(_as_seen(each), **_ended(state, why, now_us)):
                open_followers(_known(each), state, now_us)

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
    # Whoever wrote it: an end that no database takes would be told as a lost lease.
    return shortened(reason, REASON_LIMIT)


def _lock_job_of(run: int) -> None:
    """Whoever begins or ends another run of the job at the same time waits here, and sees what becomes of this one:
    where runs meet, and where others follow the last part of a slot.

    Before any of its runs is locked: nobody who has a run waits for this.
    """
    job = JobRun.objects.filter(pk=run).values("job")
    JobCursor.objects.select_for_update().filter(job__in=job).first()


def _locked(run: int, columns: Sequence[str]) -> JobRun | None:
    return JobRun.objects.select_for_update().filter(pk=run).only(*columns).first()


def _is_free(run: JobRun, step: Begin) -> bool:
    """Whether somebody asked for it who need not wait for others."""
    return run.kind == JobRun.Kind.MANUAL and not step.policy.binds_manual


def _beside(run: JobRun, step: Begin) -> list[RunRow]:
    """The others of its job that matter to whether it begins."""
    policy = step.policy
    if not policy.limit or _is_free(run, step):
        return []
    # Any number may wait under a limit, and no further one hangs on them.
    matter = Q(state=RunState.RUNNING) if policy.overlap is Overlap.RUN else Q(state=RunState.RUNNING) | Q(waits=True)
    others = JobRun.objects.filter(matter, job=run.job, ended_us=None).exclude(pk=run.pk)
    if not policy.binds_manual:
        others = others.exclude(kind=JobRun.Kind.MANUAL)
    if policy.per_node:
        others = others.filter(Q(owner__startswith=f"{host_of_owner(step.owner)}:") | Q(waits=True))
    return [row_of(other) for other in others.only(*_COLUMNS)]


def _next(ended: JobRun, policy: JobPolicy) -> dict[int, str]:
    """The run that has waited longest for this one, and which part it does."""
    waiting = JobRun.objects.filter(job=ended.job, ended_us=None, waits=True).order_by("slot", "pk")
    meeting = (each for each in waiting.values_list("pk", "part") if policy.meet(ended.part, each[1]))
    return dict(islice(meeting, 1))


def _known(row: RunRow) -> JobRun:
    """What of its run is known without asking."""
    return JobRun(pk=row.id, job=row.job, part=row.part)


def _as_seen(seen: RunRow) -> QuerySet[JobRun]:
    return JobRun.objects.filter(pk=seen.id, state=seen.state, epoch=seen.epoch, attempt=seen.attempt)


def _write(run: JobRun, **columns: object) -> None:
    """In the transaction that holds the row."""
    JobRun.objects.filter(pk=run.pk).update(**columns)


def _finish(run: JobRun, state: RunState, reason: str, now_us: int) -> None:
    """End it in the transaction that holds the row, and begin what runs after it."""
    _write(run, **_ended(state, reason, now_us))
    open_followers(run, state, now_us)


def _end_attempt(run: int, epoch: int, state: RunState, reason: str, now_us: int) -> None:
    JobAttempt.objects.filter(run=run, epoch=epoch).update(state=state, reason=_fitting(reason), ended_us=now_us)


def _ended(state: RunState, reason: str, now_us: int) -> dict[str, object]:
    """The columns of a run that is over."""
    return {"state": state, "reason": _fitting(reason), "waits": False, "changed_us": now_us, "ended_us": now_us}


def _changed(rows: QuerySet[JobRun], **columns: object) -> bool:
    return rows.update(**columns) == 1


def _further(attempt: int, last_end: RunState, now_us: int, not_before_us: int = 0) -> dict[str, object]:
    """The columns of a run that is claimed anew after ``attempt``."""
    again = {"state": RunState.CLAIMED, "attempt": attempt + 1, "last_end": last_end, "not_before_us": not_before_us}
    return {**again, "begun_us": None, "changed_us": now_us}


def _cursor(row: JobCursor) -> Cursor:
    return Cursor(row.job, row.version, row.at)


def row_of(run: JobRun) -> RunRow:
    """It, as those who judge runs see it."""
    return RunRow(
        run.pk,
        run.job,
        run.slot,
        RunState(run.state),
        run.epoch,
        run.attempt,
        run.changed_us / 1_000_000,
        run.waits,
        not_before_s=run.not_before_us / 1_000_000,
        last_end=RunState(run.last_end) if run.last_end else None,
        manual=run.kind == JobRun.Kind.MANUAL,
        made_s=0.0 if run.kind == JobRun.Kind.SCHEDULE else run.decided_us / 1_000_000,
        part=run.part,
    )
