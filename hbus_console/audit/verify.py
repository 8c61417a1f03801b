"""Proves the audit log: every entry's hash, its place in the chain, and the anchored heads."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection

from engine.core.error_text import words_of
from hbus_console.audit import chain, guards, indexes
from hbus_console.audit.anchor import anchor_file, is_young
from hbus_console.audit.anchor_file import Anchor, AnchorLines, LineFlaw, Tail
from hbus_console.audit.models import BEYOND, AuditEntry, misnumbered, numbered
from hbus_console.audit.services import content
from hbus_console.audit.spelling import mistyped, respelled, with_spelling
from hbus_console.database import is_damage
from hbus_console.ui.formats import counted

#: Entries read at once: what bounds memory.
BATCH = 2_000
#: So many findings are described; all are counted.
SHOWN = 50
#: What a cell raises that does not hold what its column promises: SQLite keeps in any column whatever it was given.
_UNREADABLE = (ValueError, TypeError, OverflowError, AttributeError, RecursionError)


class FindingKind(StrEnum):
    """What can be wrong."""

    ALTERED = "altered"
    UNREADABLE = "unreadable"
    REMOVED = "removed"
    REORDERED = "reordered"
    INSERTED = "inserted"
    TRUNCATED = "truncated"
    REWRITTEN = "rewritten"
    ANCHOR = "anchor"
    UNGUARDED = "unguarded"
    HIDDEN = "hidden"


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
    #: What the store said of the head: ``agrees``, ``differs``, ``knows none``, ``no answer``; empty: it was not asked.
    store: str = ""
    #: The walk over the anchors.
    walked: AnchorLines | None = None
    #: Whether the walk ended at an entry that cannot be read, and not with the log.
    stopped: bool = False
    #: Whether there were no anchors of this host to hold it against.
    bare: bool = False

    def find(self, kind: FindingKind, seq: int, what: str) -> None:
        """Note a finding; the verdict no longer holds."""
        self.holds = False
        self.findings_total += 1
        if len(self.findings) < SHOWN:
            self.findings.append(Finding(kind, seq, what))

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        found = asdict(replace(self, walked=None))
        del found["walked"], found["stopped"], found["bare"]
        return found

    @property
    def outcome(self) -> str:
        """The answer for who may not know how many entries there are."""
        return "The audit log is verified: unbroken." if self.holds else "The audit log does not hold."

    def sentence(self) -> str:
        """The answer first."""
        span = "" if self.first_seq <= 1 else f" (from entry {self.first_seq:,} on)"
        if self.holds:
            heads = counted(self.anchors, "anchored head agrees", "anchored heads agree")
            if self.bare:
                cut = "its end was cut off" if self.entries else "it ever had any"
                heads = f"there are no anchors to tell whether {cut}"
            store = {"agrees": ", and so does the store", "no answer": "; the store did not answer"}.get(self.store, "")
            return f"{counted(self.entries, 'entry', 'entries')} verified{span}: unbroken; {heads}{store}."
        found = counted(self.findings_total, "finding", "findings")
        return f"The audit log does not hold: {found} in {counted(self.entries, 'entry', 'entries')}{span}."


def verify(
    after: int = 0, after_hash: str = chain.GENESIS, *, since: Tail | None = None, seen: Sequence[tuple[str, Tail]] = ()
) -> Verdict:
    """Walk the log in constant memory, from the beginning or after an entry verified before with its hash then.

    ``since`` is how far the anchors were verified before. ``seen`` names who saw the anchor file go how far: "was
    verified before". Finds altered, removed, reordered and inserted entries, a log that was cut off behind an anchor or
    rebuilt as a whole, cells that hold what their column does not (where the database itself cannot read one, the walk
    ends there), a log that is no longer young and has no anchor, anchors that are not what hbus wrote, guards of the
    database that do not stand, and what hides entries from lists: from the beginning on also what an index lacks.
    Entries appended meanwhile are included or not, but never found at fault.
    """
    began = time.monotonic()
    verdict = Verdict(first_seq=after + 1, last_seq=after, head=after_hash)
    for what in guards.flaws(connection):
        verdict.find(FindingKind.UNGUARDED, 0, what)
    # Before the walk: an anchor made meanwhile is no reason to look away.
    verdict.bare = anchor_file().last() is None
    walk = _AnchorWalk(verdict, after, since)
    unanchored = False
    try:
        unanchored = verdict.bare and not is_young()
        _look_around(verdict, after, after_hash)
        _walk(verdict, after, walk)
    except (*_UNREADABLE, DatabaseError) as error:
        _raise_unless_damage(error)
        seq = verdict.last_seq + 1
        what = f"Entry {seq:,} cannot be read ({words_of(error)}); what follows it was not verified."
        verdict.find(FindingKind.UNREADABLE, seq, what)
        verdict.stopped = True
    walk.finish(seen)
    if unanchored:
        lacks_anchors(verdict)
    if not after:
        _look_at_indexes(verdict)
    verdict.took_s = round(time.monotonic() - began, 3)
    return verdict


def _look_around(verdict: Verdict, after: int, after_hash: str) -> None:
    """What the walk does not come by."""
    for hidden in indexes.definitions(connection):
        verdict.find(FindingKind.HIDDEN, hidden.seq, hidden.what)
    if after and not AuditEntry.objects.filter(seq=after, hash=after_hash).exists():
        verdict.find(FindingKind.REWRITTEN, after, f"Entry {after:,} is no longer the one that was verified before.")
    # The walk begins behind them.
    for seq in numbered().filter(seq__lt=1).values_list("seq", flat=True)[:SHOWN]:
        verdict.find(FindingKind.INSERTED, seq, f"Entry {seq:,} stands before the first one.")
    for seq in misnumbered().values_list("seq", flat=True)[:SHOWN]:
        verdict.find(FindingKind.UNREADABLE, 0, f"The number of an entry is {str(seq)[:40]!r}.")


def _look_at_indexes(verdict: Verdict) -> None:
    try:
        for hidden in indexes.contents(connection):
            verdict.find(FindingKind.HIDDEN, hidden.seq, hidden.what)
    except DatabaseError as error:
        _raise_unless_damage(error)
        verdict.find(FindingKind.UNREADABLE, 0, f"An index of the log cannot be read ({words_of(error)}).")


def _raise_unless_damage(error: Exception) -> None:
    """A database that cannot be asked now says nothing of the log."""
    if isinstance(error, DatabaseError) and not is_damage(error):
        raise error


def _walk(verdict: Verdict, after: int, anchors: _AnchorWalk) -> None:
    for entry in _entries(after):
        try:
            _check(verdict, entry)
            anchors.reach(entry)
        except _UNREADABLE as error:
            what = f"Entry {entry.seq:,} holds what its columns do not ({words_of(error)})."
            verdict.find(FindingKind.UNREADABLE, entry.seq, what)
        verdict.entries += 1
        verdict.last_seq, verdict.head = entry.seq, entry.hash


def lacks_anchors(verdict: Verdict) -> None:
    """Note that no anchor is there although there must be; once."""
    what = f"no anchor: nothing on this host tells whether the log was cut off behind entry {verdict.last_seq:,}."
    if all(finding.what != what for finding in verdict.findings):
        verdict.find(FindingKind.ANCHOR, 0, what)


def _entries(after: int) -> Iterator[AuditEntry]:
    """Keyset batches rather than one cursor: no long transaction, and a batch is all that is in memory."""
    entries = with_spelling(numbered().filter(seq__lt=BEYOND).order_by("seq"))
    while True:
        try:
            batch = list(entries.filter(seq__gt=after)[:BATCH])
        except (*_UNREADABLE, DatabaseError):
            # One at a time, up to the one that raises: so it is known which.
            seqs = (
                numbered().filter(seq__gt=after, seq__lt=BEYOND).order_by("seq").values_list("seq", flat=True)[:BATCH]
            )
            for seq in list(seqs):
                yield entries.get(seq=seq)
                after = seq
            continue
        if not batch:
            return
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
    if strange := mistyped(entry):
        what = f"Entry {entry.seq:,} ({entry.action}) holds what its columns do not: {', '.join(strange)}."
        verdict.find(FindingKind.UNREADABLE, entry.seq, what)
    elif entry.hash != chain.link(settings.AUDIT_KEY, entry.previous_hash, content(entry)):
        verdict.find(FindingKind.ALTERED, entry.seq, f"Entry {entry.seq:,} ({entry.action}) does not match its hash.")
    elif changed := respelled(entry):
        what = f"Entry {entry.seq:,} ({entry.action}) is not spelled as it was written: {', '.join(changed)}."
        verdict.find(FindingKind.ALTERED, entry.seq, what)


class _AnchorWalk:
    """Merges the anchors, which lie in the order of their entries, with the walk over the log."""

    def __init__(self, verdict: Verdict, after: int, since: Tail | None) -> None:
        self._verdict = verdict
        self._lines = verdict.walked = anchor_file().walk(since)
        self._after = after
        self._found = iter(self._lines)
        self._last = Anchor(0, "", 0)
        self._next = self._read()

    def _read(self) -> Anchor | None:
        for found in self._found:
            if isinstance(found, LineFlaw):
                self._verdict.find(FindingKind.ANCHOR, found.seq, found.what)
            elif found.seq < self._last.seq:
                self._verdict.find(FindingKind.ANCHOR, found.seq, f"The anchor of entry {found.seq:,} is out of order.")
            elif (found.seq, found.hash) != (self._last.seq, self._last.hash):
                self._last = found
                if found.seq > self._after:
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

    def finish(self, seen: Sequence[tuple[str, Tail]]) -> None:
        """The log ends: nothing later may be anchored, and the anchors must go as far as they were ``seen`` to."""
        beyond = 0
        while self._next is not None:
            beyond = self._next.seq
            self._next = self._read()
        if beyond and not self._verdict.stopped:
            last = self._verdict.last_seq
            self._verdict.find(
                FindingKind.TRUNCATED, last + 1, f"The log ends at entry {last:,}, but entry {beyond:,} was anchored."
            )
        if self._lines.flaw is not None or self._lines.tail is None:
            return
        for words, tail in seen:
            skipped = self._lines.since is not None and tail.end <= self._lines.since.end
            if tail.mac not in self._lines.met and not skipped:
                what = f"The anchor file lacks what {words}: lines were taken out of it, or it is another one."
                self._verdict.find(FindingKind.ANCHOR, 0, what)
                return
