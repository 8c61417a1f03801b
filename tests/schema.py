"""The tables of the test database, which all tests of a process share: taken apart for a moment, and compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, models

_INDEXES = {
    "sqlite": "SELECT name, COALESCE(sql, '') FROM sqlite_master WHERE type IN ('index', 'trigger')",
    "postgresql": (
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() UNION ALL "
        "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal"
    ),
}


def guarding() -> dict[str, str]:
    """How each index and trigger of the database is made, by its name: what a test has to leave as it was."""
    with connection.cursor() as cursor:
        cursor.execute(_INDEXES[connection.vendor])
        return dict(cursor.fetchall())


@contextmanager
def without_constraint(model: type[models.Model], name: str) -> Iterator[None]:
    """The database does not refuse what breaks it. Afterwards nothing that breaks it may be left."""
    (constraint,) = (each for each in model._meta.constraints if each.name == name)
    with connection.schema_editor() as editor:
        editor.remove_constraint(model, constraint)
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            editor.add_constraint(model, constraint)
