"""Where an entry leads: to what happened under the same correlation id, and to what features know of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hbus_console.access.permissions import Actor
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.trail import visible
from hbus_console.registry.asking import ask

#: So many of each kind are listed.
SHOWN = 8


@dataclass(frozen=True)
class Group:
    """What one feature knows of an entry, as far as the reader may see it."""

    #: Draws ``shown``, which it finds as ``it``: a panel, or rows of a list when it is ``correlated``.
    template: str
    shown: Any
    #: It stands among what shares the entry's correlation id; otherwise it is about the entry itself.
    correlated: bool = False
    #: Where there is more of it, and the words of that link.
    more_url: str = ""
    more: str = ""


@dataclass(frozen=True)
class Related:
    """What belongs to an entry, as far as the reader may see it."""

    #: Other entries of its correlation id.
    entries: list[AuditEntry] = field(default_factory=list)
    more_entries: bool = False
    #: What features know of its correlation id, and of what it is about.
    correlated: list[Group] = field(default_factory=list)
    panels: list[Group] = field(default_factory=list)
    #: Features that could not tell.
    silent: list[str] = field(default_factory=list)


def related(actor: Actor, entry: AuditEntry) -> Related:
    """What belongs to ``entry``."""
    answers = ask(lambda feature: [feature.audit_related] if feature.audit_related else [], actor, entry)
    groups: list[Group] = [group for answer in answers.found for group in answer]
    entries: list[AuditEntry] = []
    if entry.correlation_id:
        others = visible(actor).filter(correlation_id=entry.correlation_id).exclude(seq=entry.seq)
        entries = list(others.order_by("-seq")[: SHOWN + 1])
    return Related(
        entries=entries[:SHOWN],
        more_entries=len(entries) > SHOWN,
        correlated=[group for group in groups if group.correlated],
        panels=[group for group in groups if not group.correlated],
        silent=answers.silent,
    )
