"""What became of the operation that an audit entry is about."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.clock import SystemClock
from engine.core.numbers import whole
from hbus_console.access.permissions import Actor
from hbus_console.audit.links import SHOWN, Group
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.telling import Told, tell_all
from hbus_console.audit.trail import visible
from hbus_console.evidence import freshness
from hbus_console.operations import services
from hbus_console.operations.models import Operation, OperationItem
from hbus_console.operations.reading import sentences
from hbus_console.registry.declaration import SubjectKind
from hbus_console.registry.subjects import kind_named

_clock = SystemClock()


@dataclass(frozen=True)
class OperationWork:
    """How far it is, its newest results, and what else was done to it."""

    operation: Operation
    #: What it works on: that its kind may be gone must not hide what it did.
    things: SubjectKind
    items: list[OperationItem]
    told: list[Told]
    #: What became of what it published, in words.
    outcome: str


def related(actor: Actor, entry: AuditEntry) -> list[Group]:
    """The operation of ``entry``, as far as the reader may see its results; nothing when it is about something else."""
    subject = entry.subject
    number = whole(subject.name) if subject.kind == "operation" else None
    if number is None:
        return []
    found = Operation.objects.filter(pk=number).first()
    if found is None:
        return []
    items = list(services.items(actor, found).order_by("-pk")[:SHOWN])
    same = visible(actor).filter(target_type=entry.target_type, target=entry.target).exclude(seq=entry.seq)
    told = tell_all(same.order_by("-seq")[:SHOWN])
    things = kind_named(items[0].kind if items else "thing")
    outcome = sentences([found], freshness.facts(_clock.now_ms())).get(found.pk, "")
    return [Group("operations/_work.html", OperationWork(found, things, items, told, outcome))]
