from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from hbus_console.audit import guards
from hbus_console.audit.models import AuditEntry

CHANGES = [
    "UPDATE audit_auditentry SET reason = 'nothing to see' WHERE seq = 1",
    "DELETE FROM audit_auditentry WHERE seq = 2",
    "DELETE FROM audit_auditentry",
    "INSERT OR REPLACE INTO audit_auditentry SELECT * FROM audit_auditentry WHERE seq = 1",
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
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER audit_refuse_update")
    assert guards.expected(connection) - guards.installed(connection) == {"audit_refuse_update"}
    guards.after_migrate(sender=None, using="default")
    assert guards.installed(connection) == guards.expected(connection)


def test_altering_the_table_on_sqlite_loses_the_guards_and_migrate_heals_it(write: Callable[..., Any]) -> None:
    """What the signal is for: Django rebuilds an SQLite table to alter it."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE copy_of AS SELECT * FROM audit_auditentry")
        cursor.execute("DROP TABLE audit_auditentry")
        cursor.execute("ALTER TABLE copy_of RENAME TO audit_auditentry")
    assert guards.installed(connection) == set()
    guards.after_migrate(sender=None, using="default")
    assert guards.installed(connection) == guards.expected(connection)
