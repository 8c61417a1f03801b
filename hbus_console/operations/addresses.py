"""Where the subjects of this app are shown."""

from __future__ import annotations

from engine.core.subject import Subject
from hbus_console.registry.pages import page


def operation(subject: Subject) -> str:
    """The page of an operation."""
    return page("operations:operation", subject.name)
