"""Where a subscription goes on when the store has lost its group: the keeper's last checkpoint of it."""

from __future__ import annotations

from hbus_console.database import fresh_connections
from hbus_console.subscriptions.models import Subscription


class DjangoPositions:
    """An :class:`engine.bus.inbox.Positions` over the subscription rows. Thread-safe."""

    def last(self, topic: str, group: str) -> str:
        """The checkpoint, empty (the topic's beginning) when none was ever taken. Raises ``DatabaseError``."""
        with fresh_connections():
            rows = Subscription.objects.filter(topic__name=topic, group=group)
            return str(rows.values_list("checkpoint", flat=True).first() or "")
