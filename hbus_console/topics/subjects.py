"""The subjects of rows: what :mod:`engine.bus.subjects` says of an engine's things, for models.

Every command loads the models, and to import anything of ``engine.bus`` brings the whole engine along.
"""

from __future__ import annotations

from engine.core.subject import Subject
from hbus_console.subjects import readable


def of_topic(topic: str) -> Subject:
    """The topic."""
    return Subject("topic", topic)


def of_subscription(topic: str, group: str) -> Subject:
    """The subscription; without a group, the topic."""
    return Subject("subscription", topic, group) if group else of_topic(topic)


def of_message(topic: str, message_id: str) -> Subject:
    """The message. Its id may be anything: others have given it."""
    return readable("message", topic, message_id)
