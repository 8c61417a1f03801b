"""Anchors the head of the chain outside the database, so that a cut-off or rewritten log can be told.

Each act that is committed anchors it in ``STATE/audit/anchors.jsonl`` of its host, flushed to disk. The keeper's duty
does so too, and lets the store know of it, and the log stream, which operators ship to another machine.

Anchors begin by themselves with an empty log or a young one, as long as the store knows of no head. Where none is left
of an older log, somebody may have cut it off and emptied the folder: :func:`~hbus_console.audit.verify.verify` finds
that until a person begins them anew.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import structlog
from django.conf import settings

from engine.core.clock import Clock, SystemClock, to_datetime
from hbus_console.audit import witness
from hbus_console.audit.anchor_file import Anchor, AnchorFile
from hbus_console.audit.chain import GENESIS, key_for
from hbus_console.audit.models import AuditEntry, newest

#: So long after its first entry a log may still be without an anchor: nobody's keeper has run yet.
YOUNG = timedelta(hours=1)
#: What entries are stamped by.
_wall: Clock = SystemClock()
log = structlog.get_logger(__name__)


class AuditAnchor:
    """The keeper's duty: anchor the head whenever it has moved, and let the store and the log stream know of it."""

    name = "audit-anchor"
    #: Who can write the database and the anchors, but not the store, can take out entries this young unnoticed.
    interval_s = 5.0

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._told: Anchor | None = None

    def tick(self) -> None:
        known = witness.read()
        # Where the store knows of a head there were anchors: whoever took them shall be found.
        anchor_head(self._clock, begin=None if known is not None and known.head is None else False)
        if known is not None:
            witness.renew(known, anchor_file())
        anchor = last_anchor()
        if anchor is not None and anchor != self._told:
            log.info("audit head anchored", seq=anchor.seq, hash=anchor.hash)
        self._told = anchor


def anchors_path() -> Path:
    """Where this installation's anchors lie."""
    return Path(settings.STATE) / "audit" / "anchors.jsonl"


def anchor_file() -> AnchorFile:
    """This host's anchors."""
    return AnchorFile(anchors_path(), key_for(settings.AUDIT_KEY, "audit anchors"))


def is_young() -> bool:
    """Whether the log began so lately that nothing need be anchored yet; an empty one did."""
    try:
        first = AuditEntry.objects.order_by("seq").values_list("at", flat=True).first()
    except (ValueError, TypeError):
        return False
    return first is None or to_datetime(_wall.now_ms()) - first < YOUNG


def anchor_head(clock: Clock | None = None, *, begin: bool | None = None) -> Anchor | None:
    """Append the head of the chain unless it is anchored already; returns what was appended.

    Anchors that were not begun yet begin where they shall (``begin``), also with an empty log; by default only while
    the log is young, or where those of a release before their hashes lie; with ``False`` they do not, and their lack is
    left for verification to find. Safe between processes. Raises ``OSError`` when the disk refuses.
    """
    file = anchor_file()
    head = newest().values_list("seq", "hash").first()
    if head is None and begin:
        head = (0, GENESIS)
    may_begin = (file.last() is not None or is_young()) if begin is None else begin
    if file.last() is None and not may_begin:
        return None
    return file.append(head, (clock or SystemClock()).now_ms(), begin=may_begin)


def anchor_commit() -> None:
    """Anchor what was just committed, where anchors have begun. Raises ``OSError`` when the disk refuses."""
    anchor_head(begin=False)


def last_anchor() -> Anchor | None:
    """The newest readable anchor, without reading the file from its beginning."""
    return anchor_file().last()
