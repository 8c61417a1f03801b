"""Keeps SQLite's statistics, by which it chooses among indexes. PostgreSQL keeps its own."""

from __future__ import annotations

from django.db import connections, transaction
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
        """Look at a sample of every large table, some milliseconds each, and count its rows."""
        for alias in connections:
            connection = connections[alias]
            if connection.vendor == "sqlite":
                _measure(connection)


def _measure(connection: BaseDatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA analysis_limit={SAMPLE}")
        quoted = {table: connection.ops.quote_name(table) for table in connection.introspection.table_names(cursor)}
        large = {table: name for table, name in quoted.items() if _newest(cursor, name) >= WORTH_ROWS}
        for table, name in large.items():
            # Before the statement that writes, which others wait for.
            rows = _count(cursor, name)
            with transaction.atomic(using=connection.alias):
                cursor.execute(f"ANALYZE {name}")
                _state_rows(cursor, table, rows)
        if large:
            # What this connection knows of it is as the sample left it.
            cursor.execute("ANALYZE sqlite_schema")


def _state_rows(cursor: CursorWrapper, table: str, rows: int) -> None:
    """Let all indexes of a table say that it has so many ``rows``, or fewer where they are of a part of them.

    From a sample SQLite guesses that for each index by its size, and several times too many for one whose entries come
    in falling order. It then takes a walk along that index for dearer than reading and sorting the whole table.
    """
    cursor.execute(
        "SELECT it.rowid, it.stat, list.partial FROM sqlite_stat1 AS it"
        " LEFT JOIN pragma_index_list(it.tbl) AS list ON list.name = it.idx WHERE it.tbl = %s",
        [table],
    )
    for row, stat, is_partial in cursor.fetchall():
        guessed, _, rest = stat.partition(" ")
        told = min(int(guessed), rows) if is_partial else rows
        cursor.execute("UPDATE sqlite_stat1 SET stat = %s WHERE rowid = %s", [f"{told} {rest}".rstrip(), row])
    # Of an index that nothing is in now SQLite notes nothing, and takes it for one of half the table. What is in one of
    # a part of the rows now and then, such as what is open, would be looked for in all of them.
    cursor.execute(
        "INSERT INTO sqlite_stat1 (tbl, idx, stat) SELECT %s, name, '1 1' FROM pragma_index_list(%s)"
        " WHERE partial AND name NOT IN (SELECT idx FROM sqlite_stat1 WHERE tbl = %s AND idx IS NOT NULL)",
        [table, table, table],
    )


def _count(cursor: CursorWrapper, table: str) -> int:
    """By the smallest of its indexes: a million in some hundredths of a second."""
    cursor.execute(f"SELECT COUNT(*) FROM {table}")  # noqa: S608 - the name is the database's own
    (rows,) = cursor.fetchone()
    return int(rows)


def _newest(cursor: CursorWrapper, table: str) -> int:
    """The largest number of a row: at hand without counting them."""
    cursor.execute(f"SELECT MAX(rowid) FROM {table}")  # noqa: S608 - the name is the database's own
    (newest,) = cursor.fetchone()
    return newest or 0
