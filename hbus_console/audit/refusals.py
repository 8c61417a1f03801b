"""A refused governed act leaves an audit entry, or is counted for one, although the act itself left nothing."""

from __future__ import annotations

from typing import Any

from engine.core.subject import Subject
from hbus_console.access.acts import Act
from hbus_console.access.permissions import GLOBAL, SOMEWHERE, Actor, Forbidden
from hbus_console.audit.models import REFUSED, AuditEntry
from hbus_console.audit.refusal_counts import record_or_count
from hbus_console.audit.subjects import INSTALLATION, NAMESPACE
from hbus_console.subjects import readable


def book_refusal(actor: Actor, error: Forbidden, **_: Any) -> None:
    """Receives :data:`hbus_console.access.refusals.refused`."""
    record_refusal(actor, error)


def record_refusal(actor: Actor, error: Forbidden) -> AuditEntry | None:
    """Book ``<action>.refused`` in a transaction of its own; call it after the refused act's has rolled back.

    Returns ``None`` when there is nothing to book: reading is not governed, and nobody is known to have asked. So it
    does where it was counted, after many of the same person.
    """
    if error.action is None or not error.action.governed or not actor.is_authenticated:
        return None
    return record_or_count(
        actor,
        f"{error.action.name}{REFUSED}",
        _refused(error.action, error.resource),
        {"why": error.what, "remedy": error.remedy},
    )


def _refused(action: Act, resource: str) -> Subject:
    """What the act was to be done to: the installation, a thing, or a namespace with all that lies in it."""
    if resource in ("", GLOBAL, SOMEWHERE):
        return INSTALLATION
    namespace = resource.removesuffix(".*")
    return readable(action.about or NAMESPACE if namespace == resource else NAMESPACE, namespace)
