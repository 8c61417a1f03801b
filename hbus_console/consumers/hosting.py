"""The consumer role of a process: the host, what it is asked from afar, and the sign that it is alive."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from typing import Any

import structlog
from django.conf import settings
from django.utils.module_loading import autodiscover_modules

from hbus_console.consumers import control
from hbus_console.consumers.host import SubscriptionHost
from hbus_console.consumers.wanted import WantedSubscriptions, idle_report
from hbus_console.database import keep_connections
from hbus_console.nodes.beat import NodeBeat
from hbus_console.wiring import store

#: States of a consumer that takes nothing more and will be gone once its handlers have ended.
ENDING = ("draining", "stopped")

_log = structlog.get_logger(__name__)


class HostedRole:
    """Started and stopped by the worker step; owns every thread of its own, none of Celery's."""

    def __init__(self) -> None:
        # A handler counts from its import on: each installed app may have a module of them.
        autodiscover_modules("handlers")
        keep_connections()
        self._wanted = WantedSubscriptions()
        self._host = SubscriptionHost(self._wanted)
        self._beat = NodeBeat(
            store.client(),
            settings.HBUS_PREFIX,
            name=store.node_name(),
            role="consumer",
            slot=os.environ.get("HBUS_SLOT", "0"),
            detail=self.report,
            turned_ms=self.turned_ms,
        )
        self._stop_by: float | None = None

    def start(self) -> None:
        control.attach(self)
        self._host.start()
        self._beat.start()

    def request_stop(self) -> None:
        """From now on no new message; the grace begins. Safe inside a signal handler."""
        if self._stop_by is None:
            self._stop_by = time.monotonic() + settings.HBUS_GRACE_S
        self._host.request_stop()

    def stop(self) -> None:
        """Drain within what is left of the grace, flush the evidence, leave. Idempotent."""
        self.request_stop()
        left_s = max(0.2, (self._stop_by or 0.0) - time.monotonic())
        control.detach(self)
        self._host.stop(left_s)
        self._beat.stop()
        store.close(1.0)

    @property
    def host(self) -> SubscriptionHost:
        return self._host

    def turned_ms(self) -> int:
        """The oldest stamp among the loops: one that hangs makes the whole node fall silent."""
        # One that is being stopped reads no more, as it should.
        ages = (each.loop_age_s for each in self._host.statuses().values() if each.state not in ENDING)
        oldest_s = max(ages, default=0.0)
        return min(self._host.turned_ms, time.time_ns() // 1_000_000 - round(oldest_s * 1000))

    def report(self) -> dict[str, Any]:
        """What runs here and how, JSON-able: for the node's stamp, remote control and ``celery inspect stats``."""
        return {
            "node": store.node_name(),
            "error": self._host.error,
            "consumers": [asdict(status) for status in self._host.statuses().values()],
            **idle_report({**self._wanted.problems, **self._host.idle()}),
        }
