"""What moves: ``audit``, and every subject that something was done to lately. So an act marks what it changed."""

from __future__ import annotations

from engine.core.clock import to_datetime
from hbus_console.access.permissions import covers
from hbus_console.audit.models import newest
from hbus_console.audit.subjects import Stored, read
from hbus_console.ui.live import LiveCells

#: Entries looked at; older ones were told when they were new.
LATEST = 100
#: Many acts in a moment push others out of these before anybody has looked: then as far back as this, and no more.
BURST_MS = 10_000
MOST = 2_000


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """Of the newest entries those about what lies in ``scopes``: one query on the key, however long the log is, and a
    second one while much is done.
    """
    entries = newest().values_list("seq", "target_type", "target", "namespace", "at")
    latest, lately = list(entries[:LATEST]), to_datetime(now_ms - BURST_MS)
    if len(latest) == LATEST and latest[-1][-1] > lately:
        latest += entries.filter(at__gt=lately)[LATEST:MOST]
    marks: dict[str, int] = {}
    for seq, target_type, target, namespace, _ in latest:
        if any(covers(scope, namespace) for scope in scopes):
            marks.setdefault("audit", seq)
            marks.setdefault(str(read(Stored(target_type, target, namespace))), seq)
    return LiveCells(marks=marks)
