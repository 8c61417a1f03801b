"""How answers name what they are about: by its subject, and the bus's things also as version 1 began to."""

from __future__ import annotations

from engine.core.subject import Subject
from hbus_console.registry.subjects import kind_named

#: The kind whose name version 1 gives to a namespace.
_TOPIC = "topic"


def topic_of(subject: Subject) -> str:
    """Its topic; empty when it neither is one nor lies in one."""
    return namespace_as_topic(subject.kind, subject.namespace)


def namespace_as_topic(kind: str, namespace: str) -> str:
    """``namespace`` as what has things of that kind in it is called in version 1; empty when that is no topic."""
    return namespace if _TOPIC in (kind, kind_named(kind).within) else ""


def subscription_of(subject: Subject) -> str:
    """The name of the subscription that it is; empty when it is something else."""
    return subject.name if subject.kind == "subscription" else ""


def message_of(subject: Subject | None) -> str:
    """The id of the message that it is; empty when it is something else, or nothing."""
    return subject.name if subject is not None and subject.kind == "message" else ""
