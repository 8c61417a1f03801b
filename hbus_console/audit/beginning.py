"""Where anchors begin: by themselves with an empty log, by a person's word with one that has entries already.

And where those of a release that wrote them without hashes go on with them.
"""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction

from engine.core.errors import Conflict
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit import witness
from hbus_console.audit.anchor import anchor_file, anchor_head, anchors_path, last_anchor
from hbus_console.audit.anchor_file import Anchor
from hbus_console.audit.feature import AUDIT_ANCHOR
from hbus_console.audit.models import AuditEntry, newest
from hbus_console.audit.services import record
from hbus_console.audit.subjects import LOG


def prepare(say: Callable[[str], object]) -> None:
    """Begin with the empty log of a new installation: it may be set up today and started next week.

    Anchors of a release before their hashes get hashes from now on, which cover what stands there.
    """
    file = anchor_file()
    if not AuditEntry.objects.exists():
        anchor_head(begin=True)
    elif file.last() is not None and file.tail() is None and anchor_head(begin=True):
        say("The audit log's anchors are under keyed hashes from now on.")


def begin_anchors(actor: Actor, reason: str) -> Anchor | None:
    """Say in the log that anchors begin on this host, and why; return the anchor of that entry.

    It is for after a restore, and for a host that joins an installation; what the store knew counts no more. ``None``
    when another process anchored it first. Raises ``Forbidden``, ``BadInput`` without a reason, ``Conflict`` where
    anchors are, and ``OSError`` when the disk refuses.
    """
    require(actor, AUDIT_ANCHOR)
    reason = checks.reason(reason)
    known = last_anchor()
    if known is not None:
        raise Conflict(
            f"Entry {known.seq:,} is anchored on this host already.",
            remedy=f"Move {anchors_path().parent} aside first, if what it says is to count no more.",
            field="begin",
        )
    with transaction.atomic():
        head = newest().values("seq", "hash").first()
        record(actor, "audit.anchor", LOG, reason=reason, after=head or {})
    begun = anchor_head(begin=True)
    witness.restate(anchor_file())
    return begun
