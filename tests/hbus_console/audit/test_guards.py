from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from hbus_console.audit import guards
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import AuditDamaged
from tests.guards import drop

CHANGES = [
    "UPDATE audit_auditentry SET reason = 'nothing to see' WHERE seq = 1",
    "DELETE FROM audit_auditentry WHERE seq = 2",
    "DELETE FROM audit_auditentry",
    "INSERT OR REPLACE INTO audit_auditentry SELECT * FROM audit_auditentry WHERE seq = 1"
    if connection.vendor == "sqlite"
    else "TRUNCATE audit_auditentry",
]


@pytest.mark.parametrize("sql", CHANGES)
def test_the_database_refuses_to_change_or_remove_an_entry(write: Callable[..., Any], sql: str) -> None:
    write(2)
    before = list(AuditEntry.objects.values())
    refused = pytest.raises(DatabaseError, match="audit entries cannot be changed or removed")
    with refused, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)
    assert list(AuditEntry.objects.values()) == before


def test_the_orm_is_refused_too(write: Callable[..., Any]) -> None:
    (entry,) = write(1)
    entry.reason = "other"
    with pytest.raises(DatabaseError), transaction.atomic():
        entry.save()
    with pytest.raises(DatabaseError), transaction.atomic():
        entry.delete()


def test_a_guard_that_was_lost_is_put_back_by_the_next_migrate(write: Callable[..., Any]) -> None:
    write(1)
    lost = min(guards.expected(connection))
    drop(connection, lost)
    assert guards.expected(connection) - guards.installed(connection) == {lost}
    guards.after_migrate(sender=None, using="default")
    assert guards.installed(connection) == guards.expected(connection)


def test_guards_survive_an_altered_table_or_are_put_back_by_migrate(write: Callable[..., Any]) -> None:
    """What the signal is for: Django rebuilds an SQLite table to alter it. PostgreSQL alters it in place."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("CREATE TABLE copy_of AS SELECT * FROM audit_auditentry")
            cursor.execute("DROP TABLE audit_auditentry")
            cursor.execute("ALTER TABLE copy_of RENAME TO audit_auditentry")
        else:
            cursor.execute("ALTER TABLE audit_auditentry ADD COLUMN more integer")
    assert guards.installed(connection) == (set() if connection.vendor == "sqlite" else guards.expected(connection))
    guards.after_migrate(sender=None, using="default")
    assert guards.installed(connection) == guards.expected(connection)


def swallow(table: str = guards.TABLE) -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"CREATE TRIGGER quiet BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END")
        else:
            cursor.execute(f"CREATE RULE quiet AS ON INSERT TO {table} DO INSTEAD NOTHING")


def test_an_act_whose_entry_was_swallowed_is_not_done(write: Callable[..., Any]) -> None:
    write(1)
    swallow()
    with pytest.raises(AuditDamaged, match="did not keep the entry of this act"):
        write(1)
    assert AuditEntry.objects.count() == 1


@pytest.mark.sqlite  # SQLite keeps statements as they were typed
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER quiet BEFORE INSERT ON AUDIT_AUDITENTRY BEGIN SELECT RAISE(IGNORE); END",
        'CREATE TRIGGER quiet BEFORE INSERT ON "main"."Audit_AuditEntry" BEGIN SELECT RAISE(IGNORE); END',
        "CREATE /* index */ TRIGGER quiet AFTER INSERT ON [audit_auditentrY] BEGIN SELECT 1; END",
    ],
)
@pytest.mark.parametrize("disguise", ["", "tbl_name = 'auth_group'", "type = 'index'"])
def test_a_trigger_is_found_whatever_it_calls_the_table(db: None, statement: str, disguise: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        if disguise:
            cursor.execute("PRAGMA writable_schema = ON")
            cursor.execute(f"UPDATE sqlite_master SET {disguise} WHERE name = 'quiet'")
            cursor.execute("PRAGMA writable_schema = OFF")
    (said,) = guards.flaws(connection)
    assert said.endswith("could swallow entries: quiet.")


@pytest.mark.sqlite  # PostgreSQL tells a view by its kind
def test_a_view_in_the_tables_place_is_found(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {guards.TABLE} RENAME TO kept_away")
        cursor.execute(f"CREATE VIEW {guards.TABLE} AS SELECT * FROM kept_away")
    assert any(guards.TABLE in said.partition("swallow entries:")[2] for said in guards.flaws(connection))
