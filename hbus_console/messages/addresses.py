"""Where the subjects of this feature are shown."""

from __future__ import annotations

from urllib.parse import urlencode

from engine.core.subject import Subject
from hbus_console.registry.pages import page


def message(subject: Subject) -> str:
    """The page of a message."""
    return page_of(subject.namespace, subject.name)


def page_of(topic: str, message_id: str, source: str = "") -> str:
    """The page of the message of that id in ``topic``: another topic, or another ``source``, may have one of the same
    id. Without a source it is the newest."""
    address = page("messages:message", message_id)
    named = {"topic": topic} | ({"source": source} if source else {})
    return f"{address}?{urlencode(named)}" if address else ""
