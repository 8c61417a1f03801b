"""The newest runs of many jobs, a few of each: as many short walks along an index, and no look at the others.

Where a slot is divided, one of its parts stands for all: the one that went worst.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection

from engine.cron.slots.steps import WORST_FIRST, RunState
from hbus_console.jobs.columns import Division
from hbus_console.jobs.models import Job, JobRun

_TABLE = JobRun._meta.db_table
#: In the order of the model, which its rows are made in.
_COLUMNS = "id, job, slot, kind, part, state, reason, decided_us, begun_us, ended_us"
_NEWEST = f"""
    SELECT {_COLUMNS} FROM (
        SELECT {_COLUMNS} FROM {_TABLE} WHERE job = %s AND slot >= %s ORDER BY slot DESC, id DESC LIMIT %s
    ) AS newest
"""  # noqa: S608 - the names are ours
#: On so many nodes a slot is looked for at most, where it is done on each.
_MOST_NODES = 50
#: Jobs in one statement: SQLite joins no more than 500.
_CHUNK = 100


def newest_runs(jobs: Sequence[str], most: int, since_s: int = 0) -> dict[str, list[JobRun]]:
    """Of each of ``jobs`` at most ``most`` slots that are not before ``since_s``, the newest first, a run for each.

    What is not needed to draw them is not loaded.
    """
    found: dict[str, list[JobRun]] = {job: [] for job in jobs}
    for start in range(0, len(jobs), _CHUNK):
        some = jobs[start : start + _CHUNK]
        parts = _parts(some)
        statement = " UNION ALL ".join([_NEWEST] * len(some))
        with connection.cursor() as cursor:
            cursor.execute(statement, [value for job in some for value in (job, since_s, most * parts.get(job, 1))])
            names = _COLUMNS.split(", ")
            for row in cursor.fetchall():
                run = JobRun.from_db(connection.alias, names, row)
                found[run.job].append(run)
    return {job: _one_each(runs)[:most] for job, runs in found.items()}


def _parts(jobs: Sequence[str]) -> dict[str, int]:
    """Of how many runs a slot of those that are divided may be."""
    divided = Job.objects.filter(name__in=jobs).exclude(division=Division.WHOLE)
    return {
        name: shards if division == Division.SHARDS else _MOST_NODES
        for name, division, shards in divided.values_list("name", "division", "shards")
    }


def _one_each(runs: list[JobRun]) -> list[JobRun]:
    worst: dict[object, JobRun] = {}
    for run in sorted(runs, key=lambda run: (run.slot, run.pk), reverse=True):
        place = (run.kind, run.slot) if run.part else run.pk
        if place not in worst or _rank(run) < _rank(worst[place]):
            worst[place] = run
    return list(worst.values())


def _rank(run: JobRun) -> tuple[int, int]:
    """The worst is the least, and of those that went alike the longest."""
    return WORST_FIRST.index(RunState(run.state)), (run.begun_us or 0) - (run.ended_us or 0)
