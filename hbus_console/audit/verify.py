"""Proves the audit log: every entry's hash, its place in the chain, and the anchored heads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db import connection

from hbus_console.audit import chain, guards
from hbus_console.audit.anchor import Anchor, anchors, is_young, last_anchor
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import content
from hbus_console.ui.formats import counted

#: Entries read at once: what bounds memory.
BATCH = 2_000
#: So many findings are described; all are counted.
SHOWN = 50


class FindingKind(StrEnum):
    """What can be wrong."""

    ALTERED = "altered"
    REMOVED = "removed"
    REORDERED = "reordered"
    TRUNCATED = "truncated"
    REWRITTEN = "rewritten"
    ANCHOR = "anchor"
    UNGUARDED = "unguarded"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, at one entry (0: with the log as a whole), in one sentence."""

    kind: FindingKind
    seq: int
    what: str


@dataclass
class Verdict:
    """The answer of one verification. ``first_seq`` > 1 means that entries before it were verified earlier."""

    holds: bool = True
    entries: int = 0
    first_seq: int = 1
    last_seq: int = 0
    head: str = chain.GENESIS
    anchors: int = 0
    findings_total: int = 0
    findings: list[Finding] = field(default_factory=list)
    took_s: float = 0.0

    def find(self, kind: FindingKind, seq: int, what: str) -> None:
        """Note a finding; the verdict no longer holds."""
        self.holds = False
        self.findings_total += 1
        if len(self.findings) < SHOWN:
            self.findings.append(Finding(kind, seq, what))

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)

    def sentence(self) -> str:
        """The answer first."""
        span = "" if self.first_seq <= 1 else f" (from entry {self.first_seq:,} on)"
        if self.holds:
            heads = counted(self.anchors, "anchored head agrees", "anchored heads agree")
            return f"{counted(self.entries, 'entry', 'entries')} verified{span}: unbroken; {heads}."
        found = counted(self.findings_total, "finding", "findings")
        return f"The audit log does not hold: {found} in {counted(self.entries, 'entry', 'entries')}{span}."


def verify(after: int = 0, after_hash: str = chain.GENESIS) -> Verdict:
    """Walk the log in constant memory, from the beginning or after an entry verified before with its hash then.

    Finds altered, removed and reordered entries, a log that was cut off behind an anchor or rebuilt as a whole, one
    that is no longer young and has no anchor, and missing database guards. Entries appended meanwhile are included or
    not, but never found at fault.
    """
    began = time.monotonic()
    verdict = Verdict(first_seq=after + 1, last_seq=after, head=after_hash)
    missing = guards.expected(connection) - guards.installed(connection)
    if missing:
        verdict.find(
            FindingKind.UNGUARDED, 0, f"The database does not guard the log: {', '.join(sorted(missing))} missing."
        )
    if after and not AuditEntry.objects.filter(seq=after, hash=after_hash).exists():
        verdict.find(FindingKind.REWRITTEN, after, f"Entry {after:,} is no longer the one that was verified before.")
    # Before the walk: an anchor made meanwhile is no reason to look away.
    unanchored = last_anchor() is None and not is_young()
    walk = _AnchorWalk(verdict, after)
    for entry in _entries(after):
        _check(verdict, entry)
        walk.reach(entry)
        verdict.entries += 1
        verdict.last_seq, verdict.head = entry.seq, entry.hash
    walk.finish()
    if unanchored:
        what = f"no anchor: nothing on this host tells whether the log was cut off behind entry {verdict.last_seq:,}."
        verdict.find(FindingKind.ANCHOR, 0, what)
    verdict.took_s = round(time.monotonic() - began, 3)
    return verdict


def _entries(after: int) -> Iterator[AuditEntry]:
    """Keyset batches rather than one cursor: no long transaction, and a batch is all that is in memory."""
    while batch := list(AuditEntry.objects.filter(seq__gt=after).order_by("seq")[:BATCH]):
        yield from batch
        after = batch[-1].seq


def _check(verdict: Verdict, entry: AuditEntry) -> None:
    expected = verdict.last_seq + 1
    if entry.seq != expected:
        gone = entry.seq - expected
        what = f"Entry {expected:,} is" if gone == 1 else f"Entries {expected:,} to {entry.seq - 1:,} are"
        verdict.find(FindingKind.REMOVED, expected, f"{what} missing.")
    elif entry.previous_hash != verdict.head:
        verdict.find(FindingKind.REORDERED, entry.seq, f"Entry {entry.seq:,} does not follow the entry before it.")
        return
    if entry.hash != chain.link(settings.AUDIT_KEY, entry.previous_hash, content(entry)):
        verdict.find(FindingKind.ALTERED, entry.seq, f"Entry {entry.seq:,} ({entry.action}) does not match its hash.")


class _AnchorWalk:
    """Merges the anchors, which lie in the order of their entries, with the walk over the log."""

    def __init__(self, verdict: Verdict, after: int) -> None:
        self._verdict = verdict
        self._file = anchors(after)
        self._last_seq = after
        self._next = self._read()

    def _read(self) -> Anchor | None:
        for found in self._file:
            if isinstance(found, str):
                self._verdict.find(FindingKind.ANCHOR, 0, f"A line of the anchor file is no anchor: {found[:80]!r}.")
            elif found.seq <= self._last_seq:
                self._verdict.find(FindingKind.ANCHOR, found.seq, f"The anchor of entry {found.seq:,} is out of order.")
            else:
                self._last_seq = found.seq
                return found
        return None

    def reach(self, entry: AuditEntry) -> None:
        """The log has ``entry``: what is anchored there must be it."""
        while self._next is not None and self._next.seq <= entry.seq:
            # An anchor of an entry that is missing needs no second finding: the gap is one.
            if self._next.seq == entry.seq:
                self._verdict.anchors += 1
                if self._next.hash != entry.hash:
                    self._verdict.find(
                        FindingKind.REWRITTEN, entry.seq, f"Entry {entry.seq:,} is not the one that was anchored."
                    )
            self._next = self._read()

    def finish(self) -> None:
        """The log ends: nothing later may be anchored."""
        beyond = 0
        while self._next is not None:
            beyond = self._next.seq
            self._next = self._read()
        if beyond:
            last = self._verdict.last_seq
            self._verdict.find(
                FindingKind.TRUNCATED, last + 1, f"The log ends at entry {last:,}, but entry {beyond:,} was anchored."
            )
