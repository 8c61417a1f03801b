"""The one way into the audit log: :func:`record`, called in the transaction of the change it describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from engine.core.errors import HbusError
from engine.core.redaction import redact_text
from engine.core.subject import Subject
from hbus_console.access import context
from hbus_console.access.permissions import Actor
from hbus_console.audit import anchor, chain
from hbus_console.audit.models import AuditEntry, newest
from hbus_console.audit.plain import as_stored, plain
from hbus_console.audit.subjects import stored
from hbus_console.database import one_at_a_time

#: Serialises writers on PostgreSQL; SQLite's IMMEDIATE transactions are serial already.
_ADVISORY_LOCK = 0x6862_7573
#: Entries in one statement.
_BATCH = 200


class AuditDamaged(HbusError):
    """The log takes no entry, so that no audited act can be done; nothing was changed."""

    title = "Audit log damaged"

    def __init__(self, what: str) -> None:
        super().__init__(
            what, remedy="Keep a copy of the database and of STATE/audit, then run `manage.py audit verify`."
        )


def record(
    actor: Actor,
    action: str,
    subject: Subject,
    *,
    reason: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> AuditEntry:
    """Append one entry to the chain.

    Must run inside the transaction of the change: both commit or neither does. Secrets in ``before`` and ``after``
    are redacted by name. ``subject`` is what was acted upon; people with a scope see the entries of the namespaces in
    it only. Raises ``RuntimeError`` outside a transaction, and :class:`AuditDamaged` where the log does
    not keep the entry.
    """
    (entry,) = record_all(actor, action, [ToldChange.of(subject, before, after)], reason=reason)
    return entry


@dataclass(frozen=True)
class ToldChange:
    """What an act changed of one thing among several, redacted already: that takes time, and can be done before the
    transaction that others wait for."""

    subject: Subject
    before: Any
    after: Any

    @classmethod
    def of(cls, subject: Subject, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> ToldChange:
        """Of values as they are."""
        return cls(subject, plain(before), plain(after))


def record_all(actor: Actor, action: str, changes: Sequence[ToldChange], *, reason: str = "") -> list[AuditEntry]:
    """Append an entry for each of ``changes``, in few statements however many there are; else as :func:`record`."""
    if not connection.in_atomic_block:
        raise RuntimeError("An audit entry is written in the transaction of its change; open one with atomic().")
    request, said = context.current(), as_stored(redact_text(reason))
    entries: list[AuditEntry] = []
    with transaction.atomic():
        one_at_a_time(_ADVISORY_LOCK)
        last = newest().only("seq", "hash").first()
        for change in changes:
            columns = stored(change.subject)
            entry = AuditEntry(
                seq=1 if last is None else last.seq + 1,
                at=datetime.now(UTC),
                actor=as_stored(actor.name),
                actor_kind=actor.kind,
                action=action,
                target_type=columns.target_type,
                target=columns.target,
                namespace=columns.namespace,
                reason=said,
                before=change.before,
                after=change.after,
                request_id=request.request_id,
                correlation_id=request.correlation_id,
                address=request.address,
                previous_hash=chain.GENESIS if last is None else last.hash,
            )
            entry.hash = chain.link(settings.AUDIT_KEY, entry.previous_hash, content(entry))
            entries.append(entry)
            last = entry
        AuditEntry.objects.bulk_create(entries, batch_size=_BATCH)
        _refuse_unkept(entries)
    # Robust: a full disk is logged and must not undo, or seem to undo, what has been committed.
    transaction.on_commit(anchor.anchor_commit, robust=True)
    return entries


def _refuse_unkept(entries: Sequence[AuditEntry]) -> None:
    """A trigger can swallow the statement without an error."""
    if not entries:
        return
    there = AuditEntry.objects.filter(seq__gte=entries[0].seq, seq__lte=entries[-1].seq)
    if list(there.order_by("seq").values_list("seq", "hash")) != [(entry.seq, entry.hash) for entry in entries]:
        raise AuditDamaged("The audit log did not keep the entry of this act, which was not done.")


def content(entry: AuditEntry) -> dict[str, Any]:
    """What the hash of ``entry`` covers: everything but the two hashes, under the names of the first entries."""
    return {
        "seq": entry.seq,
        "at": entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "actor": entry.actor,
        "actor_kind": entry.actor_kind,
        "action": entry.action,
        "target_type": entry.target_type,
        "target": entry.target,
        "topic": entry.namespace,
        "reason": entry.reason,
        "before": entry.before,
        "after": entry.after,
        "request_id": entry.request_id,
        "correlation_id": entry.correlation_id,
        "address": entry.address,
    }
