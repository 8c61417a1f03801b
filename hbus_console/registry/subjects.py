"""What the features say about the kinds of subjects they answer for."""

from __future__ import annotations

from functools import cache

from engine.core.subject import Subject
from hbus_console.registry.declaration import SubjectKind
from hbus_console.registry.loading import features, resolve
from hbus_console.registry.names import SUBJECT_KINDS
from hbus_console.subjects import readable


@cache
def kinds() -> dict[str, SubjectKind]:
    """Every declared kind by its name. Raises ``ConfigurationError`` for two of one name."""
    return SUBJECT_KINDS.by_name(features())


def kind_named(name: str) -> SubjectKind:
    """The kind of that name; one that nobody declares (any more) has its name for words, and no page."""
    return kinds().get(name) or SubjectKind(name, name.replace("-", " "))


def address(subject: Subject) -> str:
    """The page of ``subject``; empty when it has none (any more)."""
    declared = kind_named(subject.kind).address
    return str(resolve(declared)(subject)) if declared else ""


def address_named(kind: str, namespace: str, name: str) -> str:
    """Likewise of a subject by its parts, as others have named it."""
    declared = kind_named(kind).named
    return str(resolve(declared)(namespace, name)) if declared else address(readable(kind, namespace, name))
