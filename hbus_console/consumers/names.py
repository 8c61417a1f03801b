"""Forgets the names of consumers that are gone: each start under another host name would leave one for ever."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from engine.bus.consumer_names import NamesConsumers
from engine.bus.errors import GroupLost
from engine.bus.transport import Admin
from engine.core.errors import Unavailable
from hbus_console.database import fresh_connections
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
        """Look at every subscription once. Raises ``Unavailable`` naming those whose store could not be reached."""
        with fresh_connections():
            rows = list(Subscription.objects.select_related("topic").order_by("topic__name", "group"))
        failed: dict[str, str] = {}
        for row in rows:
            for transport in {row.topic.transport, row.topic.leaving or row.topic.transport}:
                try:
                    self._forget(self._admin(transport), row.topic.name, row.group)
                except GroupLost:
                    # Whoever heals it makes it anew, without names.
                    continue
                except Unavailable as error:
                    failed[row.label] = error.what
        if failed:
            raise Unavailable(
                f"The consumers could not be looked at: {', '.join(failed)}: {next(iter(failed.values()))}"
            )

    def _forget(self, admin: Admin, topic: str, group: str) -> None:
        if not isinstance(admin, NamesConsumers):
            return
        for name in admin.forget_consumers(topic, group, idle_ms=self._idle_ms):
            _log.info("consumer name forgotten", topic=topic, group=group, consumer=name)
