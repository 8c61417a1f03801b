"""Holds who works to a rate: one way for all that goes on by itself, whatever the rate comes from."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

from engine.core.clock import Clock

#: Far less than one: what differences of seconds lose in precision.
_LOST = 1e-6


class Pacing(Protocol):
    """Says how many may go now. Never waits for long; whoever is held comes again."""

    def take(self, most: int) -> int:
        """Let up to ``most`` go: how many may. 0: none for now."""
        ...

    def give_back(self, count: int) -> None:
        """So many of them did not go after all."""
        ...

    def again_s(self) -> float:
        """In how many seconds it is worth asking again."""
        ...

    @property
    def holds(self) -> bool:
        """Whether it holds anybody at all now; where not, it is told afterwards what went."""
        ...

    @property
    def why(self) -> str:
        """What holds whoever got none, as a sentence; empty where it is but their own rate."""
        ...


class Together:
    """Held by each of several: as many go as all let go. As thread-safe as they are."""

    def __init__(self, pacings: Sequence[Pacing]) -> None:
        self._pacings = pacings
        self._holding: Pacing | None = None

    def take(self, most: int) -> int:
        taken: list[int] = []
        for pacing in self._pacings:
            most = pacing.take(most)
            taken.append(most)
            if not most:
                self._holding = pacing
                break
        for pacing, count in zip(self._pacings, taken, strict=False):
            if count > most:
                pacing.give_back(count - most)
        return most

    def give_back(self, count: int) -> None:
        for pacing in self._pacings:
            pacing.give_back(count)

    def again_s(self) -> float:
        return self._holding.again_s() if self._holding is not None else 0.0

    @property
    def holds(self) -> bool:
        return any(pacing.holds for pacing in self._pacings)

    @property
    def why(self) -> str:
        return self._holding.why if self._holding is not None else ""


def all_go(pacing: Pacing, count: int, clock: Clock, stop: threading.Event) -> bool:
    """Wait until ``count`` may go, a part after the other; ``False``, and what was had is given back, once ``stop`` is
    set.
    """
    left = count
    while left:
        if got := pacing.take(left):
            left -= got
        elif clock.wait(stop, pacing.again_s()):
            pacing.give_back(count - left)
            return False
    return True


class Pace:
    """Admits ``rate`` things a second on average, the first at once. Not thread-safe.

    What was not asked for is saved up: as much as ``burst_s`` seconds bring may go together, and nothing with 0.
    """

    def __init__(self, rate: float, clock: Clock, *, burst_s: float = 0.0) -> None:
        self._rate = rate
        self._clock = clock
        self._saved_s = max(0.0, burst_s - 1 / rate)
        #: When the next one is free to go.
        self._free_at = clock.monotonic()

    def room(self) -> int:
        """How many may go now."""
        now = self._look()
        return max(0, int((now - self._free_at) * self._rate + 1 + _LOST))

    def take(self, most: int) -> int:
        count = min(most, self.room())
        self._free_at += count / self._rate
        return count

    def give_back(self, count: int) -> None:
        self._free_at -= count / self._rate

    def again_s(self) -> float:
        return max(0.0, self._free_at - self._look())

    @property
    def holds(self) -> bool:
        return True

    @property
    def why(self) -> str:
        return ""

    def spend(self, count: int) -> None:
        """So many went. More than there was room for is paid back before the next may go."""
        self._look()
        self._free_at += count / self._rate

    def admit(self, count: int, stop: threading.Event) -> None:
        """Wait until the next may go, then let ``count`` go together; returns at once when ``stop`` is set."""
        wait_s = self._free_at - self._look()
        self._free_at += count / self._rate
        if wait_s > 0:
            self._clock.wait(stop, wait_s)

    def _look(self) -> float:
        now = self._clock.monotonic()
        self._free_at = max(self._free_at, now - self._saved_s)
        return now
