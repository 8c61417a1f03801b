"""Entries as the pages show them: a sentence, its colour, and where it leads."""

from __future__ import annotations

from dataclasses import dataclass

from hbus_console.audit import words
from hbus_console.audit.damage import legible
from hbus_console.audit.models import AuditEntry
from hbus_console.registry.subjects import address, kind_named


@dataclass(frozen=True)
class Told:
    """An entry as a sentence."""

    entry: AuditEntry
    did: str
    names_target: bool
    where: str
    tone: str
    #: The page of what it is about; empty when that has none (any more).
    url: str
    #: What the namespace is called where the subject lies: ``topic``.
    namespace_word: str


def tell(entry: AuditEntry) -> Told:
    """The sentence of ``entry``, for the pages."""
    subject = legible(entry).subject
    return Told(
        entry,
        words.did(entry),
        words.names_target(entry),
        words.where(entry),
        words.tone(entry),
        address(subject),
        kind_named(subject.kind).within or "namespace",
    )
