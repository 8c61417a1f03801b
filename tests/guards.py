"""Takes the audit log's database guards away for a moment: to empty tables between tests, and to tamper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.operations import BaseDatabaseOperations

from hbus_console.audit import guards


def drop(connection: BaseDatabaseWrapper, name: str) -> None:
    """Remove one guard."""
    where = f" ON {guards.TABLE}" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER {name}{where}")


@contextmanager
def lifted(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Drop the triggers that stand, and put them back after the block."""
    standing = guards.installed(connection)
    for name in standing:
        drop(connection, name)
    yield
    if standing:
        guards.install(connection)


def let_flush_empty_the_audit_log() -> None:
    """Django empties every table after a transactional test; the guards would refuse, rightly."""
    flush = BaseDatabaseOperations.execute_sql_flush

    def guarded(self: Any, sql_list: list[str]) -> None:
        if any(guards.TABLE in sql for sql in sql_list):
            with lifted(self.connection):
                flush(self, sql_list)
        else:
            flush(self, sql_list)

    BaseDatabaseOperations.execute_sql_flush = guarded  # type: ignore[method-assign]
