"""What engines without a ledger of their own told of a subject, or under a correlation id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Q

from engine.core.errors import BadInput
from engine.core.subject import Subject
from hbus_console import cursors
from hbus_console.access.permissions import GLOBAL, Actor, visible_scopes
from hbus_console.access.scopes import scopes_q
from hbus_console.evidence.models import Evidence

PAGE = 50
MOST = 500


@dataclass(frozen=True)
class EvidenceQuery:
    """What to look for: what was told of ``subject``, under ``correlation``, or of the one under the other."""

    subject: Subject | None = None
    correlation: str = ""

    @classmethod
    def read(cls, values: Mapping[str, str]) -> EvidenceQuery:
        """From query parameters. Raises ``BadInput`` for a subject that none can be."""
        about = values.get("subject", "").strip()
        return cls(Subject.parse(about) if about else None, values.get("correlation", "").strip())

    @property
    def is_empty(self) -> bool:
        return self.subject is None and not self.correlation


@dataclass(frozen=True)
class FoundEvidence:
    """One page, newest first; ``next_cursor`` is empty on the last."""

    rows: list[Evidence]
    next_cursor: str


def search(actor: Actor, query: EvidenceQuery, cursor: str = "", size: int = PAGE) -> FoundEvidence:
    """What fits and ``actor`` may see, each page by an index.

    Raises ``BadInput`` for a query that asks for nothing, and for a cursor that no page gave.
    """
    if query.is_empty:
        raise BadInput(
            "Evidence of what?",
            remedy="Name a subject, such as job:close-of-day, or a correlation id.",
            field="subject",
        )
    if "\x00" in query.correlation:
        # PostgreSQL refuses it even in a question, and nothing that is booked has one.
        return FoundEvidence([], "")
    rows = Evidence.objects.filter(may_see(visible_scopes(actor)))
    if query.subject is not None:
        rows = rows.filter(subject=str(query.subject))
    if query.correlation:
        rows = rows.filter(correlation_id=query.correlation)
    if cursor:
        at_ms, number = cursors.read(cursor, 2)
        rows = rows.filter(cursors.beyond({"-at_ms": at_ms, "-pk": number}), at_ms__lte=at_ms)
    shown, tail = cursors.cut(rows.order_by("-at_ms", "-pk")[: size + 1], size)
    return FoundEvidence(shown, cursors.written(tail.at_ms, tail.pk) if tail else "")


def may_see(scopes: tuple[str, ...]) -> Q:
    """The filter for what those scopes show; what concerns the installation as such is everybody's."""
    return Q() if GLOBAL in scopes else scopes_q(scopes, "namespace") | Q(subject="")


def since_ms() -> int | None:
    """How far back the evidence reaches; ``None`` while there is none."""
    return Evidence.objects.order_by("pk").values_list("at_ms", flat=True).first()
