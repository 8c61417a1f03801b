"""A clock under which a tick that is bounded in time, or by a rate, gets as far on any machine."""

from __future__ import annotations

from engine.core.clock import SystemClock

_STEP_S = 0.02


class UnhurriedClock(SystemClock):
    """The time of day runs; of the time that a tick may take, the same little passes with each look at it."""

    def __init__(self) -> None:
        self._looked = 0

    def monotonic(self) -> float:
        self._looked += 1
        return self._looked * _STEP_S
