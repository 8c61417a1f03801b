"""What moves: ``audit``, and every subject that something was done to lately. So an act marks what it changed."""

from __future__ import annotations

from hbus_console.access.permissions import covers
from hbus_console.audit.models import newest
from hbus_console.audit.subjects import Stored, read
from hbus_console.ui.live import LiveCells

#: Entries looked at; older ones were told when they were new.
LATEST = 100


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """Of the newest entries those about what lies in ``scopes``: one query on the key, however long the log is."""
    latest = newest().values_list("seq", "target_type", "target", "namespace")[:LATEST]
    marks: dict[str, int] = {}
    for seq, target_type, target, namespace in latest:
        if any(covers(scope, namespace) for scope in scopes):
            marks.setdefault("audit", seq)
            marks.setdefault(str(read(Stored(target_type, target, namespace))), seq)
    return LiveCells(marks=marks)
