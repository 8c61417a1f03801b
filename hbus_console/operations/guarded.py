"""What an operation was asked for, where that tells what is hidden from some of its readers.

Who asks for the messages of one guest names the guest: whoever may see the operation would read the value of a masked
field, and by its results whose it is. What such an operation asked about is kept with it, so that it stays hidden
whatever is masked later; what is masked since is hidden as well.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from django.conf import settings

from engine.core.errors import BadInput, Conflict
from engine.core.numbers import whole
from hbus_console.access.permissions import Actor
from hbus_console.audit import chain
from hbus_console.audit.legible_fields import UNREADABLE
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.sides import Sides
from hbus_console.operations.kinds import NotInstalled, kind_named
from hbus_console.operations.models import Operation

#: Where the entry of a start keeps the mark of what it does not tell.
MARK = "spec_mark"


@runtime_checkable
class GuardedKind(Protocol):
    """What a kind has beside :class:`~.kinds.OperationKind`, if its specs may ask about what is hidden."""

    def guarded(self, spec: Mapping[str, Any]) -> list[str]:
        """What is hidden now of all that ``spec`` asks about; empty: nothing."""
        ...

    def told(self, spec: Mapping[str, Any], guarded: Sequence[str]) -> dict[str, Any]:
        """``spec`` without what it asks about ``guarded``."""
        ...

    def require_all(self, actor: Actor, spec: Mapping[str, Any]) -> None:
        """Raise ``Forbidden`` unless ``actor`` may know what is hidden there."""
        ...

    def knows_all(self, actor: Actor, spec: Mapping[str, Any]) -> bool:
        """Whether they may."""
        ...


def guarded_of(kind_name: str, spec: Mapping[str, Any], before: Sequence[str] = ()) -> list[str]:
    """What a spec asks about that is hidden now, or was ``before``."""
    kind = kind_named(kind_name)
    return sorted({*before, *kind.guarded(spec)}) if isinstance(kind, GuardedKind) else list(before)


def told_of(kind_name: str, spec: Mapping[str, Any], guarded: Sequence[str]) -> dict[str, Any]:
    """The spec without what it asks about ``guarded``; nothing of it where its kind is not installed any more."""
    if not guarded:
        return dict(spec)
    kind = kind_named(kind_name)
    return kind.told(spec, guarded) if isinstance(kind, GuardedKind) else {}


def told_to(actor: Actor, found: Operation) -> dict[str, Any]:
    """What ``found`` was asked to do, as far as ``actor`` may know."""
    return dict(found.spec) if knows_all(actor, found) else told_of(found.kind, found.spec, _guarded(found))


def knows_all(actor: Actor, found: Operation) -> bool:
    """Whether ``actor`` may know all that ``found`` was asked for, and so what fitted."""
    kind = kind_named(found.kind)
    return (isinstance(kind, GuardedKind) and kind.knows_all(actor, found.spec)) or not _guarded(found)


def require_all(actor: Actor, found: Operation) -> None:
    """Raise ``Forbidden`` unless they may, ``Conflict`` where its kind is not installed any more."""
    if knows_all(actor, found):
        return
    kind = kind_named(found.kind)
    if isinstance(kind, NotInstalled):
        raise Conflict(kind.missing.what, remedy=kind.missing.remedy, field="kind") from kind.missing
    if isinstance(kind, GuardedKind):
        kind.require_all(actor, found.spec)


def mark_of(found: Operation) -> str:
    """What proves later what ``found`` was asked for, and tells nobody: it is keyed, and differs for the same spec."""
    key = chain.key_for(settings.AUDIT_KEY, "what an operation was asked for")
    said = chain.canonical({"operation": found.pk, "spec": found.spec})
    return hmac.digest(key.encode(), said, "sha256").hex()


def proven(found: Operation) -> bool | None:
    """Whether the audit log has the mark of what ``found`` says it was asked for; ``None``: it has none."""
    entry = AuditEntry.objects.filter(seq=found.audit_seq, action="operation.start").first()
    mark = entry.after.get(MARK) if entry is not None and isinstance(entry.after, dict) else None
    return None if mark is None else isinstance(mark, str) and hmac.compare_digest(mark, mark_of(found))


def starts(entries: Sequence[AuditEntry]) -> list[Sides]:
    """Before and after of entries of starts: what is masked since is not told by those that were written before."""
    numbers = {number for entry in entries if (number := whole(entry.subject.name)) is not None}
    begun = Operation.objects.in_bulk(numbers)
    return [Sides(entry.before, _start(entry.after, begun.get(whole(entry.subject.name) or 0))) for entry in entries]


def _start(after: Any, begun: Operation | None) -> Any:
    if not isinstance(after, dict) or not isinstance(after.get("spec"), dict):
        return after
    kind, spec, before = str(after.get("kind", "")), after["spec"], begun.guarded if begun is not None else []
    if MARK in after and begun is not None:
        # What the entry does not tell cannot be read there, and more may be masked by now.
        spec = begun.spec
    try:
        guarded = guarded_of(kind, spec, before)
        return {**after, "spec": told_of(kind, spec, guarded)} if guarded else after
    except BadInput as error:
        return {**after, "spec": {UNREADABLE: error.what}}


def _guarded(found: Operation) -> list[str]:
    return guarded_of(found.kind, found.spec, found.guarded)
