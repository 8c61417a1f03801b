"""The keeper's duty that proves the audit log while nobody asks."""

from __future__ import annotations

import structlog

from engine.core.clock import Clock, SystemClock
from hbus_console.audit.gravity import gravest
from hbus_console.audit.state import last_verified, verify_now

#: Every entry from the first is walked at least this often.
FULL_EVERY_MS = 24 * 3_600_000
log = structlog.get_logger(__name__)


class AuditVerification:
    """Verifies the chain: what is new each time, all of it once a day. A broken log is logged as an error."""

    name = "audit-verification"
    interval_s = 600.0

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def tick(self) -> None:
        known = last_verified()
        due = known is None or self._clock.now_ms() - known.full_at_ms >= FULL_EVERY_MS
        verdict = verify_now(full=due or None, clock=self._clock)
        if worst := gravest(verdict.findings):
            log.error(
                "the audit log does not hold",
                findings=verdict.findings_total,
                worst=worst.what,
                remedy="Keep a copy of the database and of STATE/audit, then run `manage.py audit verify`.",
            )
