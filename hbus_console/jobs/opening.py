"""The statements of a decision, for many jobs at once: thousands of slots may come in the same second."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from django.db import connection

from engine.cron.slots.parts import WHOLE
from engine.cron.slots.steps import Cursor, RunState
from hbus_console.jobs.models import JobCursor, JobRun

Each = TypeVar("Each")
#: Rows in one statement: below what either database takes of parameters.
_CHUNK = 1_000
_CURSORS, _RUNS = JobCursor._meta.db_table, JobRun._meta.db_table

_LOCK = f"SELECT FROM {_CURSORS} WHERE job = ANY(%s) ORDER BY job FOR UPDATE"
# The columns of a list of values are called so by both databases.
_MOVE = f"""
    UPDATE {_CURSORS} SET at = v.column4 FROM (VALUES {{values}}) AS v
    WHERE {_CURSORS}.job = v.column1 AND {_CURSORS}.version = v.column2 AND {_CURSORS}.at = v.column3
    RETURNING {_CURSORS}.job
"""  # noqa: S608 - the names are ours
_A_MOVE = "(%s, CAST(%s AS bigint), CAST(%s AS bigint), CAST(%s AS bigint))"

# What is alike in all of them stands once: a statement of hundreds is long enough. SQLite asks for the WHERE.
_INSERT = f"""
    INSERT INTO {_RUNS} (
        job, version, slot, kind, state, reason, epoch, attempt, last_end, not_before_us, waits, cancel_us,
        cancel_reason, node, owner, decided_us, begun_us, ended_us, changed_us, asked_by, asked_why, key, summary, part
    ) SELECT
        v.column1, v.column2, v.column3, '{JobRun.Kind.SCHEDULE.value}',
        CASE v.column4 WHEN '' THEN '{RunState.CLAIMED.value}' ELSE '{RunState.SKIPPED.value}' END, v.column4,
        0, 1, '', v.column5, FALSE, CAST(NULL AS bigint), '', %s, '', now.us, CAST(NULL AS bigint),
        CASE v.column4 WHEN '' THEN CAST(NULL AS bigint) ELSE now.us END, now.us, '', '', '', '', v.column6
    FROM (SELECT CAST(%s AS bigint) AS us) AS now, (VALUES {{values}}) AS v WHERE TRUE
    ON CONFLICT (job, slot, kind, part) WHERE kind = 'schedule' DO NOTHING RETURNING id, job, slot, part
"""  # noqa: S608 - likewise
_A_RUN = "(%s, %s, %s, %s, CAST(%s AS bigint), %s)"


class CursorMove(NamedTuple):
    """Where a cursor is, and where it is to be."""

    cursor: Cursor
    to: int


class Decided(NamedTuple):
    """What was decided of a slot; without a reason to skip it, it is to run."""

    job: str
    version: int
    slot: int
    skipped: str
    #: Before this it is not to begin; 0: at once.
    not_before_us: int = 0
    part: str = WHOLE


class PlaceOfRun(NamedTuple):
    """There is one run of each."""

    job: str
    slot: int
    part: str


def lock_cursors(jobs: Sequence[str]) -> None:
    """Before several are written: who writes others of them at the same time locks them in the same order.

    A statement that writes many locks them in the order in which it comes upon them, and two such may wait for each
    other. On SQLite there is one writer at a time.
    """
    if connection.vendor == "postgresql" and jobs:
        with connection.cursor() as cursor:
            cursor.execute(_LOCK, [list(jobs)])


def move_cursors(moves: Sequence[CursorMove]) -> set[str]:
    """Move those that are where they were expected; the jobs whose cursors were moved. Inside a transaction."""
    if len(moves) > 1:
        lock_cursors([each.cursor.job for each in moves])
    return {
        str(job)
        for some in _some(moves)
        for (job,) in _asked(
            _MOVE,
            _A_MOVE,
            [(each.cursor.job, each.cursor.version, each.cursor.at, each.to) for each in some],
        )
    }


def insert_runs(decided: Sequence[Decided], node: str, now_us: int) -> dict[PlaceOfRun, int]:
    """A row for each, unless its slot has one: it was decided before. The ids of the new ones."""
    return {
        PlaceOfRun(str(job), int(slot), str(part)): int(pk)
        for some in _some(decided)
        for pk, job, slot, part in _asked(_INSERT, _A_RUN, some, (node, now_us))
    }


def _some(rows: Sequence[Each]) -> Iterator[Sequence[Each]]:
    for start in range(0, len(rows), _CHUNK):
        yield rows[start : start + _CHUNK]


def _asked(
    statement: str, form: str, rows: Sequence[tuple[Any, ...]], first: tuple[Any, ...] = ()
) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        values = ", ".join([form] * len(rows))
        cursor.execute(statement.format(values=values), [*first, *chain.from_iterable(rows)])
        return list(cursor.fetchall())
