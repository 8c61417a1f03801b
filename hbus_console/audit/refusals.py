"""A refused governed act leaves an audit entry, although the act itself left nothing."""

from __future__ import annotations

from django.db import transaction

from hbus_console.access.permissions import GLOBAL, SOMEWHERE, Actor, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import record


def record_refusal(actor: Actor, error: Forbidden) -> AuditEntry | None:
    """Book ``<action>.refused`` in a transaction of its own; call it after the refused act's has rolled back.

    Returns ``None`` when there is nothing to book: reading is not governed, and nobody is known to have asked.
    """
    if error.action is None or not error.action.governed or not actor.is_authenticated:
        return None
    topic = "" if error.resource in (GLOBAL, SOMEWHERE) else error.resource
    with transaction.atomic():
        return record(
            actor,
            f"{error.action.name}.refused",
            "topic" if topic else "installation",
            topic or "hbus",
            topic=topic,
            after={"why": error.what, "remedy": error.remedy},
        )
