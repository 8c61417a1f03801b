"""What the keeper does for the hosts of subscriptions."""

from __future__ import annotations

from django.conf import settings

from hbus_console.consumers.breakers import BreakerGauge
from hbus_console.consumers.names import ConsumerNameExpiry
from hbus_console.wiring import bus

_HOUR_MS = 3_600_000


def breaker_gauge() -> BreakerGauge:
    return BreakerGauge(bus.breakers)


def consumer_name_expiry() -> ConsumerNameExpiry:
    return ConsumerNameExpiry(bus.admin, idle_ms=settings.FORGET_CONSUMERS_H * _HOUR_MS)
