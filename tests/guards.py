"""Takes the audit log's database guards away for a moment: to empty tables between tests, and to tamper."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.apps import apps
from django.core.management.commands import flush as flushing
from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.operations import BaseDatabaseOperations
from django.db.models.signals import post_migrate

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


#: Empties the tables of a list that hold anything. To truncate all of them takes several times as long as a test does:
#: each gets a new file. As a replica the server asks neither guards nor references.
_EMPTY = """
SET LOCAL session_replication_role = replica;
DO $$
DECLARE
    name text;
    is_filled boolean;
BEGIN
    FOREACH name IN ARRAY ARRAY[{tables}] LOOP
        EXECUTE 'SELECT EXISTS (SELECT 1 FROM ' || name || ')' INTO is_filled;
        IF is_filled THEN
            EXECUTE 'DELETE FROM ' || name;
        END IF;
    END LOOP;
END $$
"""
_TRUNCATE = re.compile(r'TRUNCATE ((?:"\w+"(?:, )?)+);')


#: What Django makes after each migration, and hbus asks for nothing of. To make it anew takes longer than most tests.
_STAYS = ('"django_content_type"', '"auth_permission"')
#: The apps of ours that see to it that something stands after a migration.
_CARING = ("audit", "ledger")


def let_flush_empty_the_audit_log() -> None:
    """Django empties every table after a transactional test, and makes anew what migrations make. The guards would
    refuse, rightly; and what costs much of it nobody needs."""
    flush = BaseDatabaseOperations.execute_sql_flush

    def guarded(self: Any, sql_list: list[str]) -> None:
        sql_list = [sql for sql in sql_list if not (sql.startswith("DELETE") and any(name in sql for name in _STAYS))]
        truncated = [found[1].split(", ") for sql in sql_list if (found := _TRUNCATE.fullmatch(sql))]
        if len(truncated) == len(sql_list) == 1:
            names = ", ".join(f"'{name}'" for name in truncated[0] if name not in _STAYS)
            with transaction.atomic(using=self.connection.alias), self.connection.cursor() as cursor:
                cursor.execute(_EMPTY.format(tables=names))
        elif any(guards.TABLE in sql for sql in sql_list):
            with lifted(self.connection):
                flush(self, sql_list)
        else:
            flush(self, sql_list)

    BaseDatabaseOperations.execute_sql_flush = guarded  # type: ignore[method-assign]
    flushing.emit_post_migrate_signal = _tell_who_cares  # type: ignore[assignment]


def _tell_who_cares(verbosity: int, interactive: bool, db: str) -> None:
    for config in map(apps.get_app_config, _CARING):
        post_migrate.send(
            sender=config, app_config=config, verbosity=verbosity, interactive=interactive, using=db, apps=apps, plan=[]
        )
