"""What moves: ``quotas``, any change of policies, plans and books; and ``quota-uses``, what nodes told and what was
admitted and refused of late."""

from __future__ import annotations

from collections.abc import Hashable

from django.db.models import Count

from hbus_console.evidence.totals import mass
from hbus_console.quotas.models import BookInForce, QuotaNodeReport, QuotaPolicy, QuotaUse
from hbus_console.quotas.reports import GONE_AFTER_MS, SILENT_AFTER_MS
from hbus_console.quotas.sight import uses_q
from hbus_console.quotas.standing import late_since
from hbus_console.ui.live import LiveCells
from hbus_console.ui.polling import once_a_poll


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """Each change makes a book, but for a team that is gone, and for an override whose time comes."""
    reports = QuotaNodeReport.objects.filter(at_ms__gt=now_ms - GONE_AFTER_MS).order_by()
    told = frozenset(
        (node, at_ms, now_ms - at_ms > SILENT_AFTER_MS) for node, at_ms in reports.values_list("node", "at_ms")
    )
    lately = QuotaUse.objects.filter(uses_q(scopes), minute__gte=late_since(now_ms)).aggregate(
        rows=Count("pk"), a=mass("admitted"), r=mass("refused"), s=mass("shadowed")
    )
    marks: dict[str, Hashable] = {"quota-uses": (told, *lately.values())}
    state = BookInForce.objects.filter(pk=1).values_list("number", "due_ms").first()
    if state is not None:
        number, due_ms = state
        due = due_ms is not None and due_ms <= now_ms
        marks["quotas"] = (number, due, once_a_poll(_ownerless))
    return LiveCells(marks=marks)


def _ownerless() -> int:
    return QuotaPolicy.objects.filter(team=None).count()
