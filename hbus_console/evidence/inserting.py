"""Inserts many rows into the ledger database, as fast as the database at hand takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from django.db import connections

from hbus_console.evidence.columns import Row
from hbus_console.evidence.router import LEDGER

#: Rows of one statement on SQLite, which spends half of an insert on beginning and ending its statement. Of fourteen
#: columns that is a tenth of the variables that a statement may have.
ROWS = 250


@dataclass(frozen=True)
class Insert:
    """One table and its columns; ``after`` follows the values, such as what to do on a conflict."""

    table: str
    columns: tuple[str, ...]
    after: str = ""

    def run(self, rows: Sequence[Row]) -> None:
        """Insert ``rows``, inside the caller's transaction. Raises what Django raises of a database."""
        connection = connections[LEDGER]
        if not rows:
            return
        if connection.vendor != "sqlite":
            # One statement of many rows may not meet the same row twice there; the driver sends these in one go anyway.
            with connection.cursor() as cursor:
                cursor.executemany(self._statement("%s", 1), rows)
            return
        # Not by Django's cursor: looking for placeholders in a statement of this length costs more than running it.
        connection.ensure_connection()
        whole = len(rows) - len(rows) % ROWS
        with connection.wrap_database_errors:
            for start in range(0, whole, ROWS):
                values = list(chain.from_iterable(rows[start : start + ROWS]))
                connection.connection.execute(self._of_many, values)
            if whole < len(rows):
                connection.connection.executemany(self._of_one, rows[whole:])

    @cached_property
    def _of_many(self) -> str:
        return self._statement("?", ROWS)

    @cached_property
    def _of_one(self) -> str:
        return self._statement("?", 1)

    def _statement(self, mark: str, rows: int) -> str:
        row = f"({', '.join([mark] * len(self.columns))})"
        values = ", ".join([row] * rows)
        return f"INSERT INTO {self.table} ({', '.join(self.columns)}) VALUES {values} {self.after}"  # noqa: S608 - constants
