"""Keeps the evidence of engines without a ledger of their own bounded."""

from __future__ import annotations

from django.db.models import Max, Min

from hbus_console.evidence.models import Evidence


def trim_evidence(most: int, limit: int) -> int:
    """Remove up to ``limit`` of the oldest rows beyond the newest ``most``; returns how many."""
    ends = Evidence.objects.aggregate(first=Min("pk"), last=Max("pk"))
    if ends["first"] is None:
        return 0
    # Ids have no gaps worth counting; a COUNT of a million rows every tick would cost more than it tells.
    through = min(ends["last"] - most, ends["first"] + limit - 1)
    return Evidence.objects.filter(pk__lte=through).delete()[0] if through >= ends["first"] else 0
