"""Forgets the names of consumers that are gone: each start under another host name would leave one for ever."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from engine.bus.consumer_names import NamesConsumers
from engine.bus.errors import GroupLost
from engine.bus.transport import Admin
from hbus_console.parts import Parts
from hbus_console.subscriptions.models import Subscription

_log = structlog.get_logger(__name__)


class ConsumerNameExpiry:
    """A duty. A name with anything pending stays, however old it is; see :class:`NamesConsumers`."""

    name = "consumer-names"
    interval_s = 600.0

    def __init__(self, admin: Callable[[str], Admin], *, idle_ms: int) -> None:
        self._admin = admin
        self._idle_ms = idle_ms

    def tick(self) -> None:
        """Look at every subscription once. Raises what went wrong with some at the end, as :meth:`Parts.tell` does."""
        parts = Parts("The consumers could not be looked at: {parts}")
        for row in Subscription.objects.select_related("topic").order_by("topic__name", "group"):
            for transport in {row.topic.transport, row.topic.leaving or row.topic.transport}:
                parts.do(row.label, partial(self._forget, transport, row.topic.name, row.group), on=transport)
        parts.tell()

    def _forget(self, transport: str, topic: str, group: str) -> None:
        admin = self._admin(transport)
        if not isinstance(admin, NamesConsumers):
            return
        try:
            forgotten = admin.forget_consumers(topic, group, idle_ms=self._idle_ms)
        except GroupLost:
            # Whoever heals it makes it anew, without names.
            return
        for name in forgotten:
            _log.info("consumer name forgotten", topic=topic, group=group, consumer=name)
