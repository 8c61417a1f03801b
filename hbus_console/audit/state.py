"""What is known about the chain without walking it: the head, its anchor, and the last verification.

The last verification lies outside the database in ``STATE/audit/verified.json`` under a keyed hash, so that whoever
can write to the table cannot also declare it verified.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings

from engine.core.clock import Clock, SystemClock
from hbus_console.audit import chain
from hbus_console.audit.anchor import Anchor, last_anchor
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.verify import Finding, FindingKind, Verdict, verify

#: Up to so many entries a verification asked for on the page starts from the beginning; beyond, from the last one.
FULL_UP_TO = 20_000


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

    @property
    def word(self) -> str:
        """``unbroken``, ``broken`` or ``not verified``."""
        if self.verified is None:
            return "not verified"
        return "unbroken" if self.verified.holds else "broken"

    @property
    def unverified(self) -> int:
        """How many entries came after the last verification."""
        return self.entries - (self.verified.seq if self.verified else 0)

    @property
    def unanchored(self) -> int:
        """How many entries came after the last anchored head."""
        return self.entries - (self.anchor.seq if self.anchor else 0)


def chain_state() -> ChainState:
    """Cheap: one indexed query and two small reads."""
    head = AuditEntry.objects.order_by("-seq").values_list("seq", flat=True).first()
    return ChainState(entries=head or 0, anchor=last_anchor(), verified=last_verified())


def verify_now(*, full: bool | None = None, clock: Clock | None = None) -> Verdict:
    """Verify and remember the answer. By default a small log is walked whole, a big one from the last good entry on.

    After a verification that did not hold the walk is always whole.
    """
    clock = clock or SystemClock()
    known = last_verified()
    if full is None:
        full = known is None or not known.holds or known.seq <= FULL_UP_TO
    full = full or known is None
    verdict = verify() if full or known is None else verify(known.seq, known.hash)
    if full and known is not None:
        _still_there(verdict, known)
    good = verdict.holds
    now = clock.now_ms()
    _write(
        Verified(
            holds=good,
            seq=verdict.last_seq if good else (known.seq if known else 0),
            hash=verdict.head if good else (known.hash if known else chain.GENESIS),
            at_ms=now,
            full_at_ms=now if full else (known.full_at_ms if known else 0),
            findings_total=verdict.findings_total,
            findings=verdict.findings,
        )
    )
    return verdict


def _still_there(verdict: Verdict, known: Verified) -> None:
    """What was verified before counts as an anchor: it may lie beyond the last anchored head."""
    if verdict.last_seq < known.seq:
        if not any(finding.kind is FindingKind.TRUNCATED for finding in verdict.findings):
            what = f"The log ends at entry {verdict.last_seq:,}, but entry {known.seq:,} was verified before."
            verdict.find(FindingKind.TRUNCATED, verdict.last_seq + 1, what)
    elif known.seq and not AuditEntry.objects.filter(seq=known.seq, hash=known.hash).exists():
        verdict.find(
            FindingKind.REWRITTEN, known.seq, f"Entry {known.seq:,} is no longer the one that was verified before."
        )


def last_verified() -> Verified | None:
    """What was remembered; ``None`` when there is nothing, or something that we did not write."""
    try:
        found = json.loads(_path().read_text(encoding="utf-8"))
        body = found["verified"]
        if not hmac.compare_digest(found["mac"], _mac(body)):
            return None
        findings = [Finding(FindingKind(row["kind"]), row["seq"], row["what"]) for row in body["findings"]]
        return Verified(**{**body, "findings": findings})
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _write(verified: Verified) -> None:
    body = {
        **{name: getattr(verified, name) for name in Verified.__dataclass_fields__},
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
