"""That what lies in the database is spelled as hbus writes it.

The hash of an entry covers what its columns mean. SQLite keeps them as texts, and one meaning has many spellings:
another time zone, or JSON that names a field twice, of which other readers take the other one. PostgreSQL keeps the
meaning alone.
"""

from __future__ import annotations

import json

from django.db import connection
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from hbus_console.audit.models import AuditEntry

_JSON = ("before", "after")


def with_spelling(entries: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
    """``entries`` with what :func:`respelled` looks at."""
    if connection.vendor != "sqlite":
        return entries
    return entries.annotate(**{f"{name}_text": Cast(name, TextField()) for name in ("at", *_JSON)})


def respelled(entry: AuditEntry) -> list[str]:
    """The columns of an entry of :func:`with_spelling` whose texts hbus would not have written."""
    if connection.vendor != "sqlite":
        return []
    meant = {"at": str(connection.ops.adapt_datetimefield_value(entry.at))}
    for name in _JSON:
        value = getattr(entry, name)
        meant[name] = None if value is None else json.dumps(value)  # type: ignore[assignment]
    return [name for name, text in meant.items() if getattr(entry, f"{name}_text") != text]
