"""Keeps SQLite's statistics, by which it chooses among indexes. PostgreSQL keeps its own."""

from __future__ import annotations

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

#: A smaller table is read as fast by any index; and one that was measured while it was small would mislead for long.
WORTH_ROWS = 1_000
#: How many entries of an index are read: enough to tell a column of three values from one of thousands.
SAMPLE = 1_000


class DatabaseStatistics:
    """A duty. Without statistics SQLite takes every index of several columns for a good one: it looked for ten ids in
    an index that begins with a state which all rows share, and read them all.

    A connection learns of new statistics when it is opened.
    """

    name = "database-statistics"
    interval_s = 600.0

    def tick(self) -> None:
        """Look at a sample of every large table: some milliseconds each."""
        for alias in connections:
            connection = connections[alias]
            if connection.vendor == "sqlite":
                _measure(connection)


def _measure(connection: BaseDatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA analysis_limit={SAMPLE}")
        quoted = [connection.ops.quote_name(table) for table in connection.introspection.table_names(cursor)]
        # One statement each: whoever wants to write waits for one table at most.
        for table in quoted:
            if _newest(cursor, table) >= WORTH_ROWS:
                cursor.execute(f"ANALYZE {table}")


def _newest(cursor: CursorWrapper, table: str) -> int:
    """The largest number of a row: at hand without counting them."""
    cursor.execute(f"SELECT MAX(rowid) FROM {table}")  # noqa: S608 - the name is the database's own
    (newest,) = cursor.fetchone()
    return newest or 0
