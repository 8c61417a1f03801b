"""Where the subjects of this feature are shown."""

from __future__ import annotations

from engine.core.subject import Subject
from hbus_console.registry.pages import page


def dead_letter(subject: Subject) -> str:
    """The list of them: a dead letter has no page of its own."""
    return page("deadletters:list")
