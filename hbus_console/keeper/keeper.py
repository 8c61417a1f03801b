"""The keeper role: hosts the duties of an installation and stamps that it is alive."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import structlog
from django.conf import settings

from engine.core.clock import Clock, SystemClock
from engine.core.duties import HUNG_AFTER_S, Duty, DutyRunner
from hbus_console.database import fresh_connections, keep_connections
from hbus_console.nodes.beat import NodeBeat
from hbus_console.wiring import store

#: A duty that has hung for so long makes the node fall silent, as do all that run here at once after
#: :data:`~engine.core.duties.HUNG_AFTER_S`: nothing but a new process ends a thread. Until then the others go on.
GIVEN_UP_AFTER_S = 300.0

_log = structlog.get_logger(__name__)


class Keeper:
    """Started once, stopped once. Thread-safe."""

    def __init__(self, duties: Sequence[Duty], clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        keep_connections()
        self._intervals = {duty.name: duty.interval_s for duty in duties}
        self._runner = DutyRunner(duties, leases=store.lease, clock=self._clock, around=fresh_connections)
        self._beat = NodeBeat(
            store.client(),
            settings.HBUS_PREFIX,
            name=store.node_name(),
            role="keeper",
            slot=os.environ.get("HBUS_SLOT", "0"),
            detail=self.report,
            turned_ms=self.turned_ms,
        )

    def start(self) -> None:
        self._runner.start()
        self._beat.start()

    def stop(self, drain_s: float) -> None:
        """Let running ticks end within ``drain_s`` seconds, give the leases up, flush the evidence, leave."""
        if not self._runner.stop(drain_s):
            _log.warning("a duty or a renewal was still at work when the grace ended; leases run out by themselves")
        self._beat.stop()
        store.close(1.0)

    def report(self) -> dict[str, Any]:
        """The duties as they stand, JSON-able."""
        return {"duties": [asdict(status) for status in self._runner.status()]}

    def turned_ms(self) -> int:
        """Now; or, once the process is of no more use, the moment from which its duties should have moved."""
        late = [
            status.loop_age_s - self._intervals[status.name]
            for status in self._runner.status()
            if status.state in ("running", "hung")
        ]
        now_ms = self._clock.now_ms()
        if late and max(late) >= GIVEN_UP_AFTER_S:
            return now_ms - round(max(late) * 1000)
        if late and min(late) >= HUNG_AFTER_S:
            return now_ms - round(min(late) * 1000)
        return now_ms
