"""What moves: ``audit``, and every subject that something was done to lately. So an act marks what it changed.

And ``audit/chain``, whether the log holds: a verification, an anchor or what the store knows moves it without an entry.
"""

from __future__ import annotations

from engine.core.clock import to_datetime
from hbus_console.access.permissions import GLOBAL, covers
from hbus_console.audit.models import newest
from hbus_console.audit.state import chain_state
from hbus_console.audit.subjects import Stored, read
from hbus_console.ui.live import LiveCells
from hbus_console.ui.polling import once_a_poll

#: Entries looked at; older ones were told when they were new.
LATEST = 100
#: Many acts in a moment push others out of these before anybody has looked: then as far back as this, and no more.
BURST_MS = 10_000
MOST = 2_000


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """Of the newest entries those about what lies in ``scopes``: one query on the key, however long the log is, a
    second one while much is done, and once a poll what :func:`chain_state` costs.
    """
    entries = newest().values_list("seq", "target_type", "target", "namespace", "at")
    latest, lately = list(entries[:LATEST]), to_datetime(now_ms - BURST_MS)
    if len(latest) == LATEST and latest[-1][-1] > lately:
        latest += entries.filter(at__gt=lately)[LATEST:MOST]
    marks: dict[str, int | tuple[object, ...]] = {"audit/chain": _chain(scopes)}
    for seq, target_type, target, namespace, _ in latest:
        if any(covers(scope, namespace) for scope in scopes):
            marks.setdefault("audit", seq)
            marks.setdefault(str(read(Stored(target_type, target, namespace))), seq)
    return LiveCells(marks=marks)


def _chain(scopes: tuple[str, ...]) -> tuple[object, ...]:
    """All that the title line tells of but for the entries, which have marks of their own.

    Every act is anchored: who does not see all entries would hear of those they do not see.
    """
    verdict, anchored = once_a_poll(_chain_told)
    return (*verdict, anchored if GLOBAL in scopes else anchored > 0)


def _chain_told() -> tuple[tuple[object, ...], int]:
    state = chain_state()
    seen = state.verified
    verdict = (seen.holds, seen.at_ms, seen.findings_total) if seen else ()
    return (state.word, state.trouble, *verdict), state.anchor.seq if state.anchor else 0
