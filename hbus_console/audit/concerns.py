"""What of the audit log needs a person: that it does not hold.

And what it knows for the concerns of others: who did something, and why.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.urls import reverse

from hbus_console.access.permissions import SOMEWHERE, allows
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.audit.gravity import gravest
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.state import chain_state
from hbus_console.audit.trail import sees_all
from hbus_console.ui.concern import Concern, Look, at
from hbus_console.ui.formats import clock


def concerns(look: Look) -> list[Concern]:
    """Said to who may read the log."""
    if not allows(look.actor, AUDIT_READ, SOMEWHERE):
        return []
    state = chain_state()
    if state.word != "broken":
        return []
    worst = gravest(state.verified.findings) if state.verified else None
    note = state.cut_off_sentence or (worst.what if worst else "") or state.trouble
    if not note or not sees_all(look.actor):
        # Which entry, and what it is about, is nobody's business who may not read it.
        note = "the last verification did not hold"
    broken = Concern("bad", "The audit log has been tampered with", note, reverse("audit:list"), "Open audit log")
    return at(20, [broken])


def last_acts(targets: Sequence[str], *actions: str) -> dict[str, AuditEntry]:
    """The latest of ``actions`` on each of ``targets`` that saw one: one query, or none for no target."""
    if not targets:
        return {}
    entries = AuditEntry.objects.filter(target__in=targets, action__in=actions).order_by("seq")
    return {entry.target: entry for entry in entries}


def who_and_why(entry: AuditEntry | None, reason: str = "") -> str:
    """``by ada at 12:04: “maintenance”``; ``reason`` is what is known beside the entry, or without one."""
    if entry is None:
        return f"“{reason}”" if reason else "nobody said why"
    words = entry.reason or reason
    return f"by {entry.actor} at {clock(entry.at)[:5]}" + (f": “{words}”" if words else ", without a reason")
