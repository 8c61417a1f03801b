"""Where the subjects of this feature are shown."""

from __future__ import annotations

from engine.core.subject import Subject
from hbus_console.registry.pages import page


def subscription(subject: Subject) -> str:
    """The page of a subscription."""
    return page("subscriptions:detail", subject.namespace, subject.name)
