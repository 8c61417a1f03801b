"""Evidence by the text of its subject or by its correlation id."""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.errors import BadInput
from engine.core.subject import Subject
from hbus_console.access.permissions import Actor
from hbus_console.evidence.addresses import evidence_of, evidence_under
from hbus_console.evidence.kinds import words_of
from hbus_console.evidence.models import Evidence
from hbus_console.evidence.reading import EvidenceQuery, search
from hbus_console.ui.finding import MOST, Hit, HitGroup, group


def find(who: Actor, text: str) -> list[HitGroup]:
    """What ``who`` may see, the newest first: a query for each way in, on its index."""
    found = [_group("Evidence by correlation id", who, EvidenceQuery(correlation=text), evidence_under(text))]
    try:
        about = Subject.parse(text)
    except BadInput:
        return found
    return [*found, _group("Evidence of a subject", who, EvidenceQuery(about), evidence_of(about))]


def _group(title: str, who: Actor, query: EvidenceQuery, address: str) -> HitGroup:
    return group(title, _hits(search(who, query, size=MOST + 1).rows, address))


def _hits(rows: Iterable[Evidence], address: str) -> Iterable[Hit]:
    return (Hit(words_of(row.kind), row.subject or "the installation", address) for row in rows)
