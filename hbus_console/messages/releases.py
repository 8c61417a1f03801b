"""A database trigger that notes when a message which waited is published.

Its row is changed by a bulk statement that mostly inserts, and that cannot tell which rows it changed. The trigger
looks at changed rows alone, which are few.
"""

from __future__ import annotations

from typing import Any

from django.db import connections

from hbus_console.messages.models import LedgerMessage, LedgerRelease

_NAME = "ledger_release"
_TABLE, _RELEASES = LedgerMessage._meta.db_table, LedgerRelease._meta.db_table
#: As :data:`~hbus_console.messages.models.WAITS` has it, before and after.
_WHEN = "OLD.due_ms > 0 AND OLD.position = '' AND OLD.stored_us = 0 AND (NEW.position <> '' OR NEW.stored_us > 0)"
_INSERT = f"INSERT INTO {_RELEASES} (row_id) VALUES (NEW.id)"  # noqa: S608 - constants
_EVENT = f"AFTER UPDATE OF position, stored_us ON {_TABLE}"
_SQLITE = f"CREATE TRIGGER IF NOT EXISTS {_NAME} {_EVENT} WHEN {_WHEN} BEGIN {_INSERT}; END"
_FUNCTION = (
    f"CREATE OR REPLACE FUNCTION hbus_{_NAME}() RETURNS trigger LANGUAGE plpgsql AS"
    f" $$ BEGIN {_INSERT}; RETURN NULL; END $$"
)
_POSTGRESQL = f"CREATE TRIGGER {_NAME} {_EVENT} FOR EACH ROW WHEN ({_WHEN}) EXECUTE FUNCTION hbus_{_NAME}()"
_STANDS = "SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass(%s) AND tgname = %s"


def after_migrate(sender: Any, using: str, **_: Any) -> None:
    """Create it where it does not stand: SQLite rebuilds a table to alter it, and drops its triggers with the old."""
    connection = connections[using]
    if not {_TABLE, _RELEASES} <= set(connection.introspection.table_names()):
        return
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(_SQLITE)
            return
        cursor.execute(_STANDS, [_TABLE, _NAME])
        if cursor.fetchone() is None:
            cursor.execute(_FUNCTION)
            cursor.execute(_POSTGRESQL)
