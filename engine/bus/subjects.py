"""The subjects of the bus: topics, subscriptions and messages."""

from __future__ import annotations

from functools import lru_cache

from engine.core.subject import Subject

TOPIC = "topic"
SUBSCRIPTION = "subscription"
MESSAGE = "message"

# They are asked for with every batch of facts, and an installation has few of them.
_KEPT = 4_096


@lru_cache(_KEPT)
def topic_subject(topic: str) -> Subject:
    """``topic:NAME``. Raises :class:`~engine.core.errors.BadInput` for a name no subject may have."""
    return Subject(TOPIC, topic)


@lru_cache(_KEPT)
def subscription_subject(topic: str, group: str) -> Subject:
    """``subscription:TOPIC/GROUP``: its namespace is its topic's name. Raises as :func:`topic_subject`."""
    return Subject(SUBSCRIPTION, topic, group)


def subject_of(topic: str, group: str) -> Subject:
    """The subscription; without a group, the topic. Raises as :func:`topic_subject`."""
    return subscription_subject(topic, group) if group else topic_subject(topic)


def message_subject(topic: str, message_id: str) -> Subject:
    """``message:TOPIC/ID``: its namespace is its topic's name. Raises as :func:`topic_subject`."""
    return Subject(MESSAGE, topic, message_id)
