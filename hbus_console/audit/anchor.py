"""Anchors the head of the chain outside the database, so that a cut-off or rewritten log can be told.

One JSON object a line in ``STATE/audit/anchors.jsonl``, flushed to disk, and the same in the log stream, which
operators ship to another machine.

Anchors begin by themselves with an empty log or a young one. Where none is left of an older log, somebody may have cut
it off and emptied the folder: :func:`~hbus_console.audit.verify.verify` finds that until a person begins them anew.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog
from django.conf import settings

from engine.core.clock import Clock, SystemClock, from_rfc3339, to_datetime, to_rfc3339
from hbus_console.audit.chain import GENESIS
from hbus_console.audit.models import AuditEntry

#: A head is anchored after so many entries even while nobody's duty runs.
EVERY_ENTRIES = 100
#: So long after its first entry a log may still be without an anchor: nobody's keeper has run yet.
YOUNG = timedelta(hours=1)
#: An anchor line is far shorter.
_TAIL_BYTES = 4096
#: What entries are stamped by.
_wall: Clock = SystemClock()
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Anchor:
    """The chain had the hash ``hash`` at entry ``seq`` (0: before the first) when it was ``at_ms``."""

    seq: int
    hash: str
    at_ms: int


class AuditAnchor:
    """The keeper's duty: anchor the head whenever it has moved."""

    name = "audit-anchor"

    def __init__(self, interval_s: float = 60.0, clock: Clock | None = None) -> None:
        self.interval_s = interval_s
        self._clock = clock or SystemClock()

    def tick(self) -> None:
        anchor_head(self._clock)


def anchors_path() -> Path:
    """Where this installation's anchors lie."""
    return Path(settings.STATE) / "audit" / "anchors.jsonl"


def is_young() -> bool:
    """Whether the log began so lately that nothing need be anchored yet; an empty one did."""
    first = AuditEntry.objects.order_by("seq").values_list("at", flat=True).first()
    return first is None or to_datetime(_wall.now_ms()) - first < YOUNG


def anchor_head(clock: Clock | None = None, *, begin: bool = False) -> Anchor | None:
    """Append the head of the chain unless it is anchored already; returns what was appended.

    A file without any anchor gets its first while the log is young, or where anchors shall ``begin``, which they may
    with an empty log as well; else their lack is left for verification to find. Safe between processes. A line torn by
    a crash is removed first. Raises ``OSError`` when the disk refuses.
    """
    path = anchors_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        # Read under the lock, so that anchors stand in the file in the order of their entries.
        head = AuditEntry.objects.order_by("-seq").values_list("seq", "hash").first()
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read()
        whole = tail.rfind(b"\n") + 1
        if whole < len(tail):
            file.truncate(size - len(tail) + whole)
        last = _parse(tail[:whole].splitlines()[-1]) if whole else None
        if head is None and begin:
            head = (0, GENESIS)
        if head is None or (last is not None and last.seq >= head[0]):
            return None
        if not (whole or begin or is_young()):
            return None
        anchor = Anchor(head[0], head[1], (clock or SystemClock()).now_ms())
        line = {"seq": anchor.seq, "hash": anchor.hash, "at": to_rfc3339(anchor.at_ms)}
        file.seek(0, os.SEEK_END)
        file.write(json.dumps(line).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    log.info("audit head anchored", seq=anchor.seq, hash=anchor.hash)
    return anchor


def anchors(after: int = 0) -> Iterator[Anchor | str]:
    """Every anchor of an entry later than ``after``, in file order; a line that is none comes as text."""
    try:
        file = anchors_path().open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            anchor = _parse(line)
            if anchor is None:
                yield line.decode(errors="replace").strip()
            elif anchor.seq > after:
                yield anchor


def last_anchor() -> Anchor | None:
    """The newest readable anchor, without reading the file from its beginning."""
    try:
        with anchors_path().open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return None
    return next((anchor for line in reversed(lines) if (anchor := _parse(line))), None)


def _parse(line: bytes) -> Anchor | None:
    try:
        found = json.loads(line)
        return Anchor(int(found["seq"]), str(found["hash"]), from_rfc3339(found["at"]))
    except (ValueError, KeyError, TypeError):
        return None
