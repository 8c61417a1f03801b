"""Refusing a change that was made from an older state, with who has changed what since."""

from __future__ import annotations

from engine.core.errors import Outdated
from engine.core.subject import Subject
from hbus_console import checks
from hbus_console.audit.diff import diff
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.subjects import about
from hbus_console.ui.formats import instant, listed

#: So many changes since are looked at, and so many of their fields named.
_MOST = 5
_CHANGED = ("changed", "added", "removed")


def require_current(given: int | None, current: int, name: str, subject: Subject) -> None:
    """As :func:`hbus_console.checks.revision`; what it raises says by whom, when and in which fields it was overtaken,
    as far as the log knows.
    """
    try:
        checks.revision(given, current, name)
    except Outdated as error:
        since = _since(subject, current - (given or 0))
        raise Outdated(f"{error.what} {since}".strip(), remedy=error.remedy) from error


def _since(subject: Subject, changes: int) -> str:
    rows = AuditEntry.objects.filter(about(subject), before__isnull=False, after__isnull=False).order_by("-seq")
    # A change may count more than once, and what is no change has an entry all the same.
    found = [entry for entry in rows[: max(1, min(changes, _MOST))] if _fields(entry)]
    if not found:
        return ""
    who = listed(dict.fromkeys(entry.actor for entry in found))
    fields = list(dict.fromkeys(field for entry in found for field in _fields(entry)))
    shown = fields if len(fields) <= _MOST else [*fields[: _MOST - 1], f"{len(fields) - _MOST + 1} more"]
    return f"{who} set {listed(shown)}, last on {instant(found[0].at):%d %b %H:%M}."


def _fields(entry: AuditEntry) -> list[str]:
    if not isinstance(entry.before, dict) or not isinstance(entry.after, dict):
        return []
    return [change.field for change in diff(entry.before, entry.after) if change.kind in _CHANGED]
