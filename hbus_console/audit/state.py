"""What is known about the chain without walking it: the head, its anchor, and the last verification.

The last verification lies outside the database in ``STATE/audit/verified.json`` under a keyed hash, so that whoever
can write to the table cannot also declare it verified. The anchors say that there is one: that it is gone is found.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings

from engine.core.clock import Clock, SystemClock
from engine.core.errors import Conflict
from hbus_console.audit import chain, witness
from hbus_console.audit.anchor import anchor_file, last_anchor
from hbus_console.audit.anchor_file import Anchor, Tail, read_own
from hbus_console.audit.gravity import gravest
from hbus_console.audit.models import newest
from hbus_console.audit.verify import Finding, FindingKind, Verdict, lacks_anchors, verify
from hbus_console.audit.witness import Alarm, Witness

#: Up to so many entries a verification asked for on the page starts from the beginning; beyond, from the last one.
FULL_UP_TO = 20_000

_walk = threading.Lock()


@dataclass(frozen=True)
class Verified:
    """The last verification: ``seq`` and ``hash`` are how far the log is known to hold."""

    holds: bool
    seq: int
    hash: str
    at_ms: int
    #: When every entry from the first was last walked; 0: never.
    full_at_ms: int = 0
    findings_total: int = 0
    findings: list[Finding] = field(default_factory=list)
    #: How far this host's anchors went then; ``None``: not known.
    file: Tail | None = None
    #: What was remembered before had been taken away or forged. A person begins the anchors anew, or it stays so.
    lost: bool = False


@dataclass(frozen=True)
class ChainState:
    """The title line of the audit page.

    It is of the log as a whole, for every reader of a part of it: how many entries there are and where the chain breaks
    is what proves that nothing is missing from that part. It names a broken entry by its number and its action, and no
    subject, actor or reason.
    """

    entries: int
    anchor: Anchor | None
    verified: Verified | None
    #: What the store knows, which no host's files change; ``None``: it gave no answer.
    told: Witness | None = None

    @property
    def word(self) -> str:
        """``unbroken``, ``broken``, ``not verified``, or ``not known`` where the store would have to say so too."""
        if self.trouble:
            return "broken"
        if self.verified is None:
            return "not verified"
        if not self.verified.holds:
            return "broken"
        return "not known" if self.told is None else "unbroken"

    @property
    def trouble(self) -> str:
        """What is wrong whatever the last verification says, in words; empty where nothing is."""
        if self.cut_off or self.told is None:
            return self.cut_off_sentence
        return self.told.alarm.sentence if self.told.alarm else self.told.forgery

    @property
    def cut_off(self) -> int:
        """The last entry that was anchored, verified or told to the store, where the log ends before it; else 0."""
        heads = (self.anchor, self.verified, self.told and self.told.head)
        known = max(each.seq if each else 0 for each in heads)
        return known if known > self.entries else 0

    @property
    def cut_off_sentence(self) -> str:
        """The same in words; empty where nothing is missing."""
        if not self.cut_off:
            return ""
        known = f"entry {self.cut_off:,} was anchored, verified or told to the store"
        return f"The log ends at entry {self.entries:,}, but {known}."

    @property
    def unverified(self) -> int:
        """How many entries came after the last verification."""
        return self.entries - (self.verified.seq if self.verified else 0)

    @property
    def unanchored(self) -> int:
        """How many entries came after the last anchored head."""
        return self.entries - (self.anchor.seq if self.anchor else 0)


def chain_state() -> ChainState:
    """Cheap: one indexed query, two small reads, and one question to the store, which has half a second."""
    # Before the log is asked: what they know of is in it by then.
    known = last_anchor(), last_verified(), witness.glance()
    return ChainState(newest().values_list("seq", flat=True).first() or 0, *known)


def verify_now(*, full: bool | None = None, clock: Clock | None = None) -> Verdict:
    """Verify and remember the answer. By default a small log is walked whole, a big one from the last good entry on.

    After a verification that did not hold the walk is always whole.
    """
    clock = clock or SystemClock()
    # Both before the walk: what they know of is there by then.
    known, forged = _recall()
    told = witness.read()
    if full is None:
        full = known is None or not known.holds or known.seq <= FULL_UP_TO
    seen = _seen(known, told)
    if full or known is None:
        full, verdict = True, verify(seen=seen)
    else:
        verdict = verify(known.seq, known.hash, since=known.file, seen=seen)
    lost = _find_lost(verdict, known, forged)
    if full and known is not None:
        _still_there(verdict, Anchor(known.seq, known.hash, 0), "was verified before")
    _compare(verdict, known, told)
    good = verdict.holds
    now = clock.now_ms()
    if told is not None and told.alarm is None and (worst := gravest(verdict.findings)):
        witness.raise_alarm(Alarm(now, worst.what))
    walked = verdict.walked.tail if verdict.walked else None
    _write(
        Verified(
            holds=good,
            seq=verdict.last_seq if good else (known.seq if known else 0),
            hash=verdict.head if good else (known.hash if known else chain.GENESIS),
            at_ms=now,
            full_at_ms=now if full else (known.full_at_ms if known else 0),
            findings_total=verdict.findings_total,
            findings=verdict.findings,
            file=walked if good else (known.file if known else None),
            lost=lost,
        )
    )
    if full and good and verdict.walked is not None and not verdict.walked.verified:
        head = newest().values_list("seq", "hash").first()
        anchor_file().append(head, now, begin=False, verified=True)
    return verdict


def verify_for_a_person() -> Verdict:
    """:func:`verify_now` for whoever asks a web process, one at a time: while the log does not hold each walks all of
    it. Raises ``Conflict`` meanwhile.
    """
    if not _walk.acquire(blocking=False):
        raise Conflict("The log is being verified already.", remedy="Look at what was found in a moment.")
    try:
        return verify_now()
    finally:
        _walk.release()


def _seen(known: Verified | None, told: Witness | None) -> list[tuple[str, Tail]]:
    """Who saw this host's anchors go how far."""
    seen = [("was verified before", known.file)] if known is not None and known.file is not None else []
    tail = anchor_file().tail()
    if told is not None and tail is not None and tail.file in told.files:
        seen.append(("the store knows of", told.files[tail.file]))
    return seen


def _find_lost(verdict: Verdict, known: Verified | None, forged: bool) -> bool:
    """Note that what was verified before is not known any more, although it was written; whether that is so."""
    lost = forged or (known is not None and known.lost)
    if known is None and verdict.walked is not None and verdict.walked.verified:
        # Another process may have written its first while this one walked.
        lost = lost or _recall()[0] is None
    if lost:
        what = f"{_path().name} was taken away or is not what hbus wrote: what was verified before is not known."
        verdict.find(FindingKind.ANCHOR, 0, what)
    return lost


def _compare(verdict: Verdict, known: Verified | None, told: Witness | None) -> None:
    """Hold the log and the anchors against what the store knows, and against what there was before."""
    held = verdict.holds
    walked = verdict.walked
    head = told.head if told else None
    if (walked is None or walked.tail is None) and (head is not None or (known is not None and known.file is not None)):
        if last_anchor() is None:
            lacks_anchors(verdict)
        else:
            what = "The anchors are without their keyed hashes, which this installation writes."
            verdict.find(FindingKind.ANCHOR, 0, what)
    if told is None:
        verdict.store = "no answer"
        return
    if told.forged:
        verdict.find(FindingKind.ANCHOR, 0, told.forgery)
    if head is not None:
        _still_there(verdict, head, "is known to the store")
    verdict.store = "knows none" if head is None else "agrees" if verdict.holds == held else "differs"
    if verdict.holds and told.alarm is not None:
        verdict.find(FindingKind.ANCHOR, 0, told.alarm.sentence)


def _still_there(verdict: Verdict, known: Anchor, words: str) -> None:
    """What was verified before, or told to the store, counts as an anchor: it may lie beyond the last anchored head."""
    if verdict.last_seq < known.seq:
        if not verdict.stopped and not any(finding.kind is FindingKind.TRUNCATED for finding in verdict.findings):
            what = f"The log ends at entry {verdict.last_seq:,}, but entry {known.seq:,} {words}."
            verdict.find(FindingKind.TRUNCATED, verdict.last_seq + 1, what)
    elif not witness.in_log(known):
        verdict.find(FindingKind.REWRITTEN, known.seq, f"Entry {known.seq:,} is no longer the one that {words}.")


def last_verified() -> Verified | None:
    """What was remembered; ``None`` when there is nothing, or something that we did not write."""
    return _recall()[0]


def _recall() -> tuple[Verified | None, bool]:
    """What was remembered, and whether something lies there that we did not write."""
    try:
        found = json.loads(read_own(_path()))
        body = found["verified"]
        if not hmac.compare_digest(str(found["mac"]).encode(), _mac(body).encode()):
            return None, True
        findings = [Finding(FindingKind(row["kind"]), row["seq"], row["what"]) for row in body["findings"]]
        file = Tail(**body["file"]) if body.get("file") else None
        return Verified(**{**body, "findings": findings, "file": file}), False
    except FileNotFoundError:
        return None, False
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None, True


def _write(verified: Verified) -> None:
    body = asdict(verified) | {
        "findings": [{"kind": row.kind.value, "seq": row.seq, "what": row.what} for row in verified.findings],
    }
    path = _path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    draft.write_text(json.dumps({"verified": body, "mac": _mac(body)}), encoding="utf-8")
    draft.replace(path)


def _mac(body: dict[str, Any]) -> str:
    return chain.link(settings.AUDIT_KEY, "verified", body)


def _path() -> Path:
    return Path(settings.STATE) / "audit" / "verified.json"
