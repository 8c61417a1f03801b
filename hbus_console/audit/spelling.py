"""That what lies in the database is spelled as hbus writes it.

The hash of an entry covers what its columns mean. SQLite keeps them as texts, and one meaning has many spellings:
another time zone, or JSON that names a field twice, of which other readers take the other one. It keeps what is no text
at all, too, of which is read that it cannot be read. PostgreSQL keeps the meaning alone.
"""

from __future__ import annotations

import json

from django.db import connection
from django.db.models import BinaryField, Func, QuerySet, TextField
from django.db.models.functions import Cast

from hbus_console.audit.models import AuditEntry

_JSON = ("before", "after")
#: What SQLite has in each column of an entry that hbus wrote.
_TYPES = {
    field.name: {"integer"} if field.name == "seq" else {"text", "null"} if field.name in _JSON else {"text"}
    for field in AuditEntry._meta.get_fields()
}
_TEXTS = [name for name in _TYPES if name not in {"seq", "at", *_JSON}]
#: Read in the place of bytes that are no text, see :mod:`hbus_console.cells`; a person may have written it too.
_REPLACED = "\ufffd"


def with_spelling(entries: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
    """``entries`` with what :func:`respelled` and :func:`mistyped` look at."""
    if connection.vendor != "sqlite":
        return entries
    texts = {f"{name}_text": Cast(name, TextField()) for name in ("at", *_JSON)}
    types = Func(
        *_TYPES, template="typeof(%(expressions)s)", arg_joiner=") || ' ' || typeof(", output_field=TextField()
    )
    return entries.annotate(**texts, types=types)


def mistyped(entry: AuditEntry) -> list[str]:
    """The columns of an entry of :func:`with_spelling` that hold what is of another type."""
    if connection.vendor != "sqlite":
        return []
    found: str = entry.types  # type: ignore[attr-defined]  # annotated
    return [name for (name, known), kind in zip(_TYPES.items(), found.split(), strict=True) if kind not in known]


def respelled(entry: AuditEntry) -> list[str]:
    """The columns of an entry of :func:`with_spelling` whose texts hbus would not have written."""
    if connection.vendor != "sqlite":
        return []
    meant = {"at": str(connection.ops.adapt_datetimefield_value(entry.at))}
    for name in _JSON:
        value = getattr(entry, name)
        meant[name] = None if value is None else json.dumps(value)  # type: ignore[assignment]
    changed = [name for name, text in meant.items() if getattr(entry, f"{name}_text") != text]
    return changed + [name for name in _TEXTS if _REPLACED in getattr(entry, name) and not _is_whole(entry, name)]


def _is_whole(entry: AuditEntry, name: str) -> bool:
    raw = AuditEntry.objects.filter(seq=entry.seq).values_list(Cast(name, BinaryField()), flat=True).first()
    return raw is not None and bytes(raw) == getattr(entry, name).encode()
