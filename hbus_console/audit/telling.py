"""Entries as the pages show them: a sentence, its colour, and where it leads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hbus_console.audit import words
from hbus_console.audit.models import CAME_TO_NOTHING, FOUND_DONE, OUTCOME_UNKNOWN, AuditEntry
from hbus_console.registry.subjects import address, kind_named

_ENDINGS = (CAME_TO_NOTHING, OUTCOME_UNKNOWN, FOUND_DONE)


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
    #: Nobody knows whether it was done.
    unknown: bool


def tell(entry: AuditEntry) -> Told:
    """The sentence of ``entry``, for the pages."""
    return tell_all([entry])[0]


def tell_all(entries: Iterable[AuditEntry]) -> list[Told]:
    """The sentences of ``entries``: one query. An entry that was written before its act, and of which a later one of
    the same request says that nothing came of it or that nobody knows, is told as that.
    """
    shown = list(entries)
    became = _became(shown)
    return [_told(entry, became.get(entry.seq, "")) for entry in shown]


def _told(entry: AuditEntry, became: str) -> Told:
    subject = entry.subject
    return Told(
        entry,
        words.did(entry, became),
        words.names_target(entry),
        words.where(entry),
        words.tone(entry, became),
        address(subject),
        kind_named(subject.kind).within or "namespace",
        (became or entry.action).endswith(OUTCOME_UNKNOWN),
    )


def _became(entries: Sequence[AuditEntry]) -> dict[int, str]:
    asked = {entry.correlation_id for entry in entries if entry.correlation_id}
    endings = {entry.action + ending for entry in entries for ending in _ENDINGS}
    if not asked:
        return {}
    later = AuditEntry.objects.filter(correlation_id__in=asked, action__in=endings).order_by("seq")
    found: dict[int, str] = {}
    for each in later:
        number = each.after.get("decision") if isinstance(each.after, dict) else None
        if isinstance(number, int):
            found[number] = each.action
    return {seq: action for seq, action in found.items() if not action.endswith(FOUND_DONE)}
