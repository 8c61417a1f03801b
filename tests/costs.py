"""What work costs, in units that a busy machine does not change: counted, never timed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from django.db import connections

#: SQLite calls back after so many instructions of its virtual machine; what is counted is exact to that.
GRAIN = 50


class Cost:
    """How much was counted; filled once the block has ended."""

    def __init__(self, vendor: str = "") -> None:
        self.units = 0
        self._vendor = vendor

    def at_most(self, *, sqlite: int, postgresql: int, what: object = "") -> None:
        """Fail when more was counted: by instructions on SQLite, by rows on PostgreSQL."""
        limit = postgresql if self._vendor == "postgresql" else sqlite
        assert self.units <= limit, f"{self.units:,} of {limit:,} {what}"


@contextmanager
def database_work(alias: str) -> Iterator[Cost]:
    """How much the database looks at: instructions of SQLite's virtual machine, or rows that PostgreSQL reads from
    tables and indexes. An index finds a page in some hundreds; a scan costs as much as there are rows, several times.
    """
    connection = connections[alias]
    cost = Cost(connection.vendor)
    if connection.vendor == "postgresql":
        before = _rows_read(alias)
        yield cost
        cost.units = _rows_read(alias) - before
        return
    connection.ensure_connection()

    def count() -> int:
        cost.units += GRAIN
        return 0

    connection.connection.set_progress_handler(count, GRAIN)
    try:
        yield cost
    finally:
        connection.connection.set_progress_handler(None, 0)


@contextmanager
def calls() -> Iterator[Cost]:
    """How many functions, in Python or in C, this thread calls."""
    cost = Cost()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            cost.units += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield cost
    finally:
        sys.setprofile(before)


def _rows_read(alias: str) -> int:
    """In this transaction."""
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_xact_user_tables)"
            " + coalesce(sum(pg_stat_get_xact_tuples_returned(indexrelid)), 0) FROM pg_stat_user_indexes"
        )
        (read,) = cursor.fetchone()
    return int(read)
