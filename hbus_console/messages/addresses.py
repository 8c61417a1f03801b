"""Where the subjects of this feature are shown."""

from __future__ import annotations

from engine.core.subject import Subject
from hbus_console.registry.pages import page


def message(subject: Subject) -> str:
    """The page of a message."""
    return page("messages:message", subject.name)
