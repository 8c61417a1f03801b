"""Where the subjects of this feature are shown."""

from __future__ import annotations

from engine.core.subject import Subject
from hbus_console.registry.pages import page


def topic(subject: Subject) -> str:
    """The page of a topic."""
    return page("topics:detail", subject.namespace)
