"""The newest runs of many jobs, a few of each: as many short walks along an index, and no look at the others."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection

from hbus_console.jobs.models import JobRun

_TABLE = JobRun._meta.db_table
#: In the order of the model, which its rows are made in.
_COLUMNS = "id, job, slot, kind, state, reason, decided_us, begun_us, ended_us"
_NEWEST = f"""
    SELECT {_COLUMNS} FROM (
        SELECT {_COLUMNS} FROM {_TABLE} WHERE job = %s AND slot >= %s ORDER BY slot DESC, id DESC LIMIT %s
    ) AS newest
"""  # noqa: S608 - the names are ours
#: Jobs in one statement: SQLite joins no more than 500.
_CHUNK = 100


def newest_runs(jobs: Sequence[str], most: int, since_s: int = 0) -> dict[str, list[JobRun]]:
    """Of each of ``jobs`` at most ``most`` runs whose slots are not before ``since_s``, the newest first.

    What is not needed to draw them is not loaded.
    """
    found: dict[str, list[JobRun]] = {job: [] for job in jobs}
    for start in range(0, len(jobs), _CHUNK):
        part = jobs[start : start + _CHUNK]
        statement = " UNION ALL ".join([_NEWEST] * len(part))
        with connection.cursor() as cursor:
            cursor.execute(statement, [value for job in part for value in (job, since_s, most)])
            names = _COLUMNS.split(", ")
            for row in cursor.fetchall():
                run = JobRun.from_db(connection.alias, names, row)
                found[run.job].append(run)
    for runs in found.values():
        runs.sort(key=lambda run: (run.slot, run.pk), reverse=True)
    return found
