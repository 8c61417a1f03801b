"""The time that a shard goes by: the wall clock, without its steps.

A clock that is put back is waited for: the time stands still until it has caught up, and nothing that was closed is
opened. One that is put forward by more than :data:`MOST_FORWARD_MS`, while no such time has passed by the monotonic
clock, would hand over an hour of messages an hour early: the time stands still as well, until somebody who knows better
(the coordinator's store) has confirmed it.
"""

from __future__ import annotations

from typing import NamedTuple

#: By how much more than monotonic time the wall clock may go forward between two readings.
MOST_FORWARD_MS = 2_000
#: How far the wall clock may be from the one that confirms it.
MOST_SKEW_MS = 500


class ClockReading(NamedTuple):
    """What a shard is to take for now."""

    now_ms: int
    #: Nothing may be handed over, and no bucket closed, until :meth:`ShardClock.confirm` has said yes.
    stopped: bool


class ShardClock:
    """Of one process; told both clocks' readings. Not thread-safe.

    A process that was stopped, or a machine that slept, goes by the same rule: what the monotonic clock did not count
    has to be confirmed.
    """

    def __init__(self, wall_ms: int, monotonic_s: float) -> None:
        self._now_ms = self._wall_ms = wall_ms
        self._monotonic_s = monotonic_s
        self._stopped = False

    def read(self, wall_ms: int, monotonic_s: float) -> ClockReading:
        """The time by now. Never less than any before it."""
        passed_ms = (monotonic_s - self._monotonic_s) * 1_000
        if wall_ms - self._wall_ms > passed_ms + MOST_FORWARD_MS:
            self._stopped = True
        self._wall_ms, self._monotonic_s = wall_ms, monotonic_s
        if not self._stopped:
            self._now_ms = max(self._now_ms, wall_ms)
        return ClockReading(self._now_ms, self._stopped)

    def confirm(self, wall_ms: int, reference_ms: int) -> bool:
        """Whether the wall clock is right by another one, both read at the same moment: it goes on, or is stopped.

        To be asked from time to time also of a clock that goes: one that drifts makes no step.
        """
        self._stopped = abs(wall_ms - reference_ms) > MOST_SKEW_MS
        return not self._stopped
