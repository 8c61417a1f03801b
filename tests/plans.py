"""How the database goes about what is asked of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.apps import apps
from django.db import connections, router

from hbus_console.keeper.statistics import DatabaseStatistics


def measured(*aliases: str) -> None:
    """Let the databases know how their tables look, as they do where the keeper runs and connections are young."""
    DatabaseStatistics().tick()
    for alias in aliases or ("default",):
        if connections[alias].vendor == "postgresql":
            # Its own tables alone: both may lie in one database, and what one connection has locked until the test is
            # over, the other would wait for.
            tables = [each._meta.db_table for each in apps.get_models() if router.db_for_write(each) == alias]
            connections[alias].cursor().execute(f"ANALYZE {', '.join(tables)}")


class Plans:
    """Of each statement that read a table its plan, in the words of the database; filled once it was asked."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def of(self, table: str) -> list[str]:
        """Of those that read ``table``."""
        return [plan for plan in self.told if table in plan]


@contextmanager
def plans(alias: str = "default") -> Iterator[Plans]:
    """How what is asked meanwhile is found, beside that it is."""
    found, connection = Plans(), connections[alias]
    explain = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"

    def look(execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if sql.lstrip().upper().startswith("SELECT"):
            # Not by the cursor that asks: of a server-side one PostgreSQL explains nothing.
            with connection.cursor() as own:
                own.execute(f"{explain} {sql}", params)
                found.told.append("\n".join(str(row[-1]) for row in own.fetchall()))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(look):
        yield found
