"""Shows how every subscription's breaker stands as a metric."""

from __future__ import annotations

from collections.abc import Callable

from engine.bus.breaker_board import RedisBreakers
from engine.core.errors import Unavailable
from hbus_console.consumers import metrics
from hbus_console.subscriptions.models import Subscription


class BreakerGauge:
    """A duty. While the store cannot be asked the metric has no value, rather than its last."""

    name = "breaker-gauge"
    interval_s = 5.0

    def __init__(self, breakers: Callable[[], RedisBreakers]) -> None:
        self._breakers = breakers

    def tick(self) -> None:
        """Look at all that have a breaker, in one round trip. Raises ``Unavailable``."""
        rows = Subscription.objects.filter(breaker_failures__gt=0).values_list("topic__name", "group")
        subscriptions = [(topic, group) for topic, group in rows]
        try:
            tripped = self._breakers().states(subscriptions)
        except Unavailable:
            metrics.show_breakers({})
            raise
        metrics.show_breakers({one: tripped.get(one, "closed") for one in subscriptions})
