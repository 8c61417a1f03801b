"""Database triggers that refuse to change or remove an audit entry, whoever asks and by whatever program."""

from __future__ import annotations

from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

TABLE = "audit_auditentry"

#: REPLACE deletes without firing a DELETE trigger, hence the guard on INSERT.
_SQLITE = {
    "audit_refuse_update": f"BEFORE UPDATE ON {TABLE}",
    "audit_refuse_delete": f"BEFORE DELETE ON {TABLE}",
    "audit_refuse_replace": f"BEFORE INSERT ON {TABLE} WHEN EXISTS (SELECT 1 FROM {TABLE} WHERE seq = NEW.seq)",  # noqa: S608 - all constants
}
_POSTGRESQL = {
    "audit_refuse_change": f"BEFORE UPDATE OR DELETE ON {TABLE} FOR EACH ROW",
    "audit_refuse_truncate": f"BEFORE TRUNCATE ON {TABLE} FOR EACH STATEMENT",
}
_REFUSAL = "audit entries cannot be changed or removed"


def install(connection: BaseDatabaseWrapper) -> None:
    """Create whichever guard is missing. On other databases than SQLite and PostgreSQL this raises ``ValueError``."""
    missing = expected(connection) - installed(connection)
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for name in missing:
                cursor.execute(f"CREATE TRIGGER {name} {_SQLITE[name]} BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END")
            return
        if missing:
            cursor.execute(
                "CREATE OR REPLACE FUNCTION hbus_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$"
            )
        for name in missing:
            cursor.execute(f"CREATE TRIGGER {name} {_POSTGRESQL[name]} EXECUTE FUNCTION hbus_audit_refuse()")


def expected(connection: BaseDatabaseWrapper) -> set[str]:
    """The names of the guards this database must have."""
    if connection.vendor == "sqlite":
        return set(_SQLITE)
    if connection.vendor == "postgresql":
        return set(_POSTGRESQL)
    raise ValueError(f"The audit log needs SQLite or PostgreSQL, not {connection.vendor}.")


def installed(connection: BaseDatabaseWrapper) -> set[str]:
    """The names of the guards that stand (and, on PostgreSQL, are enabled)."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s", [TABLE])
        else:
            cursor.execute(
                "SELECT tgname FROM pg_trigger WHERE tgrelid = to_regclass(%s) AND tgenabled <> 'D'",
                [TABLE],
            )
        return {name for (name,) in cursor.fetchall()} & expected(connection)


def after_migrate(sender: Any, using: str, **_: Any) -> None:
    """Put back what a migration lost: SQLite rebuilds a table to alter it, and drops its triggers with the old one."""
    connection = connections[using]
    if TABLE in connection.introspection.table_names():
        install(connection)
