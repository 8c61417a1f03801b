"""True time, and what happens in it."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Timeline:
    """Acts in the order of their moments. Single-threaded; an act may itself let time pass, by :meth:`run`.

    Who waits inside another's wait comes back first: the other then comes back late, as a thread may any time.
    """

    def __init__(self) -> None:
        #: Seconds from the beginning of the history.
        self.now = 0.0
        #: How many acts there were.
        self.acts = 0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def add(self, at: float, act: Callable[[], None]) -> None:
        """Those of one moment in the order in which they were added."""
        self._number += 1
        heapq.heappush(self._queue, (at, self._number, act))

    def run(self, until: float, ended: Callable[[], bool] | None = None) -> None:
        """Let time pass until that moment, or until ``ended`` after some act."""
        queue = self._queue
        while queue and queue[0][0] < until:
            at, _, act = heapq.heappop(queue)
            self.now = max(self.now, at)
            self.acts += 1
            act()
            if ended is not None and ended():
                return
        self.now = max(self.now, until)
