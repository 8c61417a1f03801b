"""Decisions whose outcome nobody has told yet: who carries them out lives, or has died on the way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from engine.core.clock import Clock, SystemClock
from hbus_console.audit.decisions import given_up
from hbus_console.audit.models import OpenDecision

#: No call of the store takes so long: who has not told of the outcome by then has died.
PATIENCE = timedelta(seconds=120)
_AT_ONCE = 500


class UntoldDecisions:
    """The keeper's duty that has the log say of them that nobody knows whether they were done.

    Without it a decision of a process that died would read as one that was carried out.
    """

    name = "untold-decisions"
    interval_s = 20.0

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def tick(self) -> None:
        before = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC) - PATIENCE
        left = OpenDecision.objects.filter(at__lt=before).order_by("seq").values_list("seq", flat=True)
        for seq in list(left[:_AT_ONCE]):
            given_up(seq, "whoever carried it out ended before telling what came of it")
