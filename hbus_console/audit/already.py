"""Telling who asked for what stands so already: nothing was done, and who had done it, when and why."""

from __future__ import annotations

from engine.core.subject import Subject
from hbus_console.access.context import note_undone
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.subjects import about
from hbus_console.registry.subjects import kind_named
from hbus_console.ui.formats import instant


def already(subject: Subject, stands: str, *actions: str, reason: str) -> None:
    """Note that ``subject`` stands so already (``is paused``): one query, for a person's request alone.

    ``actions`` are those that may have brought it there; without one nobody is named. ``reason`` is what was given for
    doing it: whoever gave one is told that it was not kept.
    """
    note_undone(lambda: _sentence(subject, stands, actions, reason))


def _sentence(subject: Subject, stands: str, actions: tuple[str, ...], reason: str) -> str:
    entry = AuditEntry.objects.filter(about(subject), action__in=actions).order_by("-seq").first() if actions else None
    name = subject.name or subject.namespace
    if name.isdecimal():
        # A number alone says nothing.
        name = f"{kind_named(subject.kind).words} {name}"
    lost = ", and your reason was not kept" if reason.strip() else ""
    said = f"Nothing was done{lost}: {name} {stands} already"
    if entry is None:
        return f"{said}."
    why = f": “{entry.reason}”" if entry.reason else ", without a reason"
    return f"{said}, since {instant(entry.at):%d %b %H:%M} by {entry.actor}{why}."
