"""The heartbeat: while a delivery is in hand its lease is renewed, and its handler learns when it was lost."""

from __future__ import annotations

import logging

from engine.bus.consuming.dispatch import InFlight
from engine.bus.consuming.recovery import Recovery
from engine.bus.consuming.scope import ConsumerScope
from engine.core.clock import jitter
from engine.core.errors import Unavailable

#: Leases renewed in one call.
CHUNK = 500

_log = logging.getLogger(__name__)


class Heartbeat:
    """Beats at a third of the lease; sooner again when the store did not answer."""

    def __init__(self, scope: ConsumerScope, recovery: Recovery) -> None:
        self._scope = scope
        self._recovery = recovery
        self._interval_s = scope.policy.lease_s / 3
        self._clock = scope.clock
        self._backoff = scope.backoff()

    def run(self) -> None:
        """The heartbeat thread."""
        # Hundreds that a process starts together must not ask together ever after, each by a connection of its own.
        due = self._clock.monotonic() + self._interval_s * jitter(self._scope.rng)
        while not self._clock.wait(self._scope.over, due - self._clock.monotonic()):
            # Counted from when it was due: a beat that came late must not push the next ones back.
            due = max(due, self._clock.monotonic() - self._interval_s) + self._beat()

    def _beat(self) -> float:
        """Renew what is due for it; seconds until the next beat."""
        now = self._clock.monotonic()
        # What was leased a moment ago can wait for the next beat, which comes long before its lease ends.
        old = [
            held
            for held in self._scope.in_flight.everything()
            if not held.lost and now - held.leased_at >= self._interval_s / 2
        ]
        try:
            for start in range(0, len(old), CHUNK):
                self._extend(old[start : start + CHUNK])
            self._recovery.note()
        except Unavailable as error:
            self._scope.health.away(error)
            return min(self._interval_s, self._backoff.next_s())
        self._backoff.reset()
        return self._interval_s

    def _extend(self, chunk: list[InFlight]) -> None:
        sent = self._clock.monotonic()
        receipts = [held.delivery.receipt for held in chunk]
        answers = self._scope.receiver.extend(receipts)
        self._scope.health.answered()
        for held, receipt, kept in zip(chunk, receipts, answers, strict=True):
            if held.delivery.receipt != receipt:
                # Leased anew while the question was on its way: the answer is about the old lease.
                continue
            if kept:
                held.leased_at = sent
            else:
                held.lose()
