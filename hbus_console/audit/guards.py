"""Database triggers that refuse to change or remove an audit entry, whoever asks and by whatever program.

They are compared by what they do and not by their names: one that was replaced, emptied or disabled does not stand.
"""

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
#: The same in the bits of pg_trigger.tgtype: 1 each row, 2 before, 8 delete, 16 update, 32 truncate.
_TYPES = {"audit_refuse_change": 1 + 2 + 8 + 16, "audit_refuse_truncate": 2 + 32}
#: Besides triggers: what PostgreSQL lets change, hide or add rows, and what keeps the guards from firing.
_POSTGRESQL_OTHERS = """
    SELECT 'rule ' || rulename FROM pg_rewrite WHERE ev_class = to_regclass(%(table)s)
    UNION ALL SELECT 'policy ' || polname FROM pg_policy WHERE polrelid = to_regclass(%(table)s)
    UNION ALL SELECT 'row-level security' FROM pg_class WHERE oid = to_regclass(%(table)s) AND relrowsecurity
    UNION ALL SELECT 'a relation that is no plain table' FROM pg_class
        WHERE oid = to_regclass(%(table)s) AND (relkind <> 'r' OR relispartition)
    UNION ALL SELECT 'inheriting table ' || inhrelid::regclass::text FROM pg_inherits
        WHERE inhparent = to_regclass(%(table)s)
    UNION ALL SELECT 'session_replication_role' WHERE current_setting('session_replication_role') <> 'origin'
"""
_REFUSAL = "audit entries cannot be changed or removed"
_FUNCTION = f" BEGIN RAISE EXCEPTION '{_REFUSAL}'; END "


def install(connection: BaseDatabaseWrapper) -> None:
    """Create whichever guard does not stand. On other databases than SQLite and PostgreSQL this raises ``ValueError``.

    What else lies on the table under other names is left for :func:`flaws` to tell.
    """
    missing = expected(connection) - installed(connection)
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for name in missing:
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
                cursor.execute(_sqlite(name))
            return
        if missing:
            cursor.execute(
                f"CREATE OR REPLACE FUNCTION hbus_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $${_FUNCTION}$$"
            )
        for name in missing:
            cursor.execute(f"DROP TRIGGER IF EXISTS {name} ON {TABLE}")
            cursor.execute(f"CREATE TRIGGER {name} {_POSTGRESQL[name]} EXECUTE FUNCTION hbus_audit_refuse()")


def expected(connection: BaseDatabaseWrapper) -> set[str]:
    """The names of the guards this database must have."""
    if connection.vendor == "sqlite":
        return set(_SQLITE)
    if connection.vendor == "postgresql":
        return set(_POSTGRESQL)
    raise ValueError(f"The audit log needs SQLite or PostgreSQL, not {connection.vendor}.")


def installed(connection: BaseDatabaseWrapper) -> set[str]:
    """The names of the guards that stand, do what :func:`install` made them do, and (on PostgreSQL) are enabled."""
    return {name for name, stands in _on_table(connection).items() if stands}


def flaws(connection: BaseDatabaseWrapper) -> list[str]:
    """What is wrong with the guards, a sentence each: one that does not stand, and what else acts on the table."""
    found = _on_table(connection)
    guards = expected(connection)
    said = []
    if lost := sorted(name for name in guards if not found.get(name)):
        told = ", ".join(f"{name} {'is not what hbus made' if name in found else 'missing'}" for name in lost)
        said.append(f"The database does not guard the log: {told}.")
    if strange := sorted(set(found) - guards):
        said.append(f"Something else acts on the log's table, and could swallow entries: {', '.join(strange)}.")
    return said


def after_migrate(sender: Any, using: str, **_: Any) -> None:
    """Put back what a migration lost: SQLite rebuilds a table to alter it, and drops its triggers with the old one."""
    connection = connections[using]
    if TABLE in connection.introspection.table_names():
        install(connection)


def _on_table(connection: BaseDatabaseWrapper) -> dict[str, bool]:
    """All that acts on the table, or a view in its place, and whether it is a guard that stands as it was made."""
    guards = expected(connection)
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            # SQLite runs the statement, whatever the columns beside it say, and knows a table in any capitals.
            cursor.execute("SELECT name, sql FROM sqlite_master WHERE instr(lower(sql), %s) > 0", [TABLE])
            return {
                name: name in guards and _plain(sql) == _plain(_sqlite(name))
                for name, sql in cursor.fetchall()
                if _acts(name, _plain(sql).lower())
            }
        cursor.execute(
            "SELECT t.tgname, t.tgtype, t.tgenabled::text, t.tgqual IS NULL AND t.tgattr::text = '', f.prosrc,"
            " l.lanname FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid JOIN pg_language l ON l.oid = f.prolang"
            " WHERE t.tgrelid = to_regclass(%s)",
            [TABLE],
        )
        # Enabled as ``R`` it fires for replication alone, which is not for people's commands.
        found = {
            name: (kind, whole, body, language) == (_TYPES.get(name), True, _FUNCTION, "plpgsql") and enabled in "OA"
            for name, kind, enabled, whole, body, language in cursor.fetchall()
        }
        cursor.execute(_POSTGRESQL_OTHERS, {"table": TABLE})
        return found | {name: False for (name,) in cursor.fetchall() if name not in found}


def _acts(name: str, sql: str) -> bool:
    """Whether what SQLite keeps as ``sql``, which names the log's table, can act on what is written to it.

    What does not begin as Django writes a table or an index counts as a trigger: a comment may stand in between.
    """
    if sql.startswith("create view"):
        return name.lower() == TABLE
    return not sql.startswith(("create table", "create index", "create unique index"))


def _sqlite(name: str) -> str:
    return f"CREATE TRIGGER {name} {_SQLITE[name]} BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"


def _plain(sql: str) -> str:
    """Without the blanks and the quotes that SQLite writes when it renames."""
    return " ".join(sql.replace('"', "").split())
