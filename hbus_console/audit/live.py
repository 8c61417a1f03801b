"""What moves: ``audit``, and every subject that something was done to lately. So an act marks what it changed."""

from __future__ import annotations

from hbus_console.access.scopes import scopes_q
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.subjects import Stored, read
from hbus_console.ui.live import LiveCells

#: Entries looked at; older ones were told when they were new.
LATEST = 100


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """The newest entries about what lies in ``scopes``: one query on the key."""
    rows = AuditEntry.objects.filter(scopes_q(scopes, "namespace")).order_by("-seq")
    newest = rows.values_list("seq", "target_type", "target", "namespace")[:LATEST]
    marks: dict[str, int] = {}
    for seq, *stored in newest:
        marks.setdefault("audit", seq)
        marks.setdefault(str(read(Stored(*stored))), seq)
    return LiveCells(marks=marks)
