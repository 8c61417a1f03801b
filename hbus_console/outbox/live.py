"""What moves: ``outbox``, when the bus refuses messages for good, or takes them after all."""

from __future__ import annotations

from django.db.models import Count, Max

from hbus_console.access.scopes import scopes_q
from hbus_console.outbox.models import OutboxMessage
from hbus_console.ui.live import LiveCells


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """Those that were refused in ``scopes``: how many, and the last."""
    refused = OutboxMessage.objects.filter(scopes_q(scopes, "topic"), refused_at__isnull=False)
    return LiveCells(marks={"outbox": tuple(refused.aggregate(Count("pk"), Max("refused_at")).values())})
