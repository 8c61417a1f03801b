"""What moves: ``evidence``, whenever something was booked that one may see, and ``notices`` with each of the ledger."""

from __future__ import annotations

from django.db.models import Max

from hbus_console.evidence.models import Evidence, Notice
from hbus_console.evidence.reading import may_see
from hbus_console.ui.live import LiveCells

#: Rows looked at; older ones were told when they were new.
LATEST = 200


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """The newest row in ``scopes``, among the latest of all."""
    latest = Evidence.objects.order_by("-pk").values("pk")[:LATEST]
    newest = Evidence.objects.filter(may_see(scopes), pk__in=latest).aggregate(newest=Max("pk"))["newest"]
    noticed = Notice.objects.aggregate(newest=Max("pk"))["newest"]
    return LiveCells(marks={"evidence": newest, "notices": noticed})
