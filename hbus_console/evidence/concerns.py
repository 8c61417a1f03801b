"""What of the engines' facts needs a person. Each stays for some hours, or until a fact tells that it is over, and
repetitions are added up.
"""

from __future__ import annotations

from typing import TypeVar

from django.db.models import BigIntegerField, Exists, Max, OuterRef, Q, QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce
from django.urls import reverse

from engine.core.fact_kinds import FactKind
from engine.core.subject import Subject
from hbus_console.access.permissions import GLOBAL
from hbus_console.access.scopes import scopes_q
from hbus_console.evidence.addresses import evidence_of
from hbus_console.evidence.kinds import kinds
from hbus_console.evidence.losses import BY_ENGINE
from hbus_console.evidence.models import Evidence, Notice
from hbus_console.evidence.reading import may_see
from hbus_console.evidence.totals import total
from hbus_console.registry import subjects
from hbus_console.ui.concern import MOST_OF_A_KIND, NOTICED_MS, Concern, Look, at
from hbus_console.ui.formats import clock, num

Row = TypeVar("Row", Notice, Evidence)
_MOST = MOST_OF_A_KIND * 2


def concerns(look: Look) -> list[Concern]:
    """The oldest first; those of engines without a ledger of their own after the others."""
    calling = [kind for kind in kinds().values() if kind.calls_for_a_person]
    return at(110, [*_notices(look, calling), *_evidence(look, calling)])


def _notices(look: Look, calling: list[FactKind]) -> list[Concern]:
    # Q() | x is x, not everything.
    seen = scopes_q(look.scopes, "topic") | Q(topic="") if GLOBAL not in look.scopes else Q()
    rows = _calling(Notice.objects.filter(seen), look, calling, "topic")
    groups = rows.values("kind", "topic", "subscription", of=BY_ENGINE).annotate(total=total("count"), newest=Max("id"))
    totals = {group["newest"]: group["total"] for group in groups.order_by("-newest")[:_MOST]}
    return [_line(row, row.subject, totals[row.pk]) for row in Notice.objects.filter(pk__in=totals).order_by("pk")]


def _evidence(look: Look, calling: list[FactKind]) -> list[Concern]:
    amount = Coalesce(Cast(KT("fields__amount"), BigIntegerField()), 1)
    rows = _calling(Evidence.objects.filter(may_see(look.scopes)), look, calling, "namespace")
    groups = rows.values("kind", "subject").annotate(total=total(amount), newest=Max("id")).order_by("-newest")
    totals = {group["newest"]: group["total"] for group in groups[:_MOST]}
    return [_line(row, row.about, totals[row.pk]) for row in Evidence.objects.filter(pk__in=totals).order_by("pk")]


def _calling(rows: QuerySet[Row], look: Look, calling: list[FactKind], namespace: str) -> QuerySet[Row]:
    """Those of ``rows`` that call for a person and are not over; ``namespace`` is the field of theirs."""
    rows = rows.filter(at_ms__gte=look.now_ms - NOTICED_MS, kind__in=[kind.name for kind in calling])
    for kind in calling:
        if kind.over_with:
            # In the order in which they were booked: clocks of processes differ.
            later = rows.model._default_manager.filter(kind=kind.over_with, pk__gt=OuterRef("pk"))
            rows = rows.exclude(Exists(later.filter(**{namespace: OuterRef(namespace)})), kind=kind.name)
    return rows


def _line(row: Notice | Evidence, subject: Subject | None, amount: int) -> Concern:
    kind = kinds()[row.kind]
    names = [subject.name, subject.namespace] if subject else ["the installation"]
    text = kind.calls_for_a_person.format(
        place=" on ".join(name for name in names if name),
        namespace=subject.namespace if subject else "",
        name=(subject.name if subject else "") or kind.unnamed or _called(subject),
        amount=num(amount),
    )
    note = " · ".join(part for part in (row.detail, f"at {clock(row.at_ms)[:5]}", row.node) if part)
    if subject and (page := subjects.address(subject)):
        return Concern("warn", text, note, page, "Open")
    if subject and isinstance(row, Evidence):
        return Concern("warn", text, note, evidence_of(subject), "Open its evidence")
    return Concern("warn", text, note, reverse("cluster:overview"), "Open cluster")


def _called(subject: Subject | None) -> str:
    if subject is None:
        return "the installation"
    return f"the {subjects.kind_named(subject.kind).words} {subject.namespace}"
