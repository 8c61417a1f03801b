"""Entries whose cells hold what their columns do not: SQLite keeps in any column whatever it is given.

They are shown with words in the place of such a cell, so that the log can be read around them. What they say is no
evidence any more: the verification names each.
"""

from __future__ import annotations

from datetime import UTC, datetime

from hbus_console.audit.legible_json import UNREADABLE
from hbus_console.audit.models import AuditEntry

_TEXTS = (
    "actor", "actor_kind", "action", "target_type", "target", "namespace", "reason", "request_id", "correlation_id",
    "address", "previous_hash", "hash",
)  # fmt: skip


def legible(entry: AuditEntry) -> AuditEntry:
    """``entry``, with words in the place of what nobody can read. For who shows it, never for who verifies it."""
    for name in _TEXTS:
        if not isinstance(getattr(entry, name), str):
            setattr(entry, name, UNREADABLE)
    if not isinstance(entry.at, datetime):
        entry.at = datetime.fromtimestamp(0, UTC)
    return entry
