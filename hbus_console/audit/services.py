"""The one way into the audit log: :func:`record`, called in the transaction of the change it describes."""

from __future__ import annotations

from collections.abc import Mapping
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
    if not connection.in_atomic_block:
        raise RuntimeError("An audit entry is written in the transaction of its change; open one with atomic().")
    request = context.current()
    columns = stored(subject)
    with transaction.atomic():
        one_at_a_time(_ADVISORY_LOCK)
        last = newest().only("seq", "hash").first()
        entry = AuditEntry(
            seq=1 if last is None else last.seq + 1,
            at=datetime.now(UTC),
            actor=as_stored(actor.name),
            actor_kind=actor.kind,
            action=action,
            target_type=columns.target_type,
            target=columns.target,
            namespace=columns.namespace,
            reason=as_stored(redact_text(reason)),
            before=plain(before),
            after=plain(after),
            request_id=request.request_id,
            correlation_id=request.correlation_id,
            address=request.address,
            previous_hash=chain.GENESIS if last is None else last.hash,
        )
        entry.hash = chain.link(settings.AUDIT_KEY, entry.previous_hash, content(entry))
        entry.save(force_insert=True)
        # A trigger can swallow the statement without an error.
        if not AuditEntry.objects.filter(seq=entry.seq, hash=entry.hash).exists():
            raise AuditDamaged("The audit log did not keep the entry of this act, which was not done.")
    # Robust: a full disk is logged and must not undo, or seem to undo, what has been committed.
    transaction.on_commit(anchor.anchor_commit, robust=True)
    return entry


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
