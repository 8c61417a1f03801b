"""Turns of the parts of a duty that share one budget of time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

Part = TypeVar("Part", bound=Hashable)


class Turns(Generic[Part]):
    """Kept from round to round of a duty: whose last turn is longest ago comes first, whatever became of it.

    How far a part is behind says nothing of whether a turn helps it: one that cannot move would be the furthest behind
    for ever, and the others would never come. Not thread-safe.
    """

    def __init__(self) -> None:
        self._number = 0
        #: Part → the number of its last turn.
        self._last: dict[Part, int] = {}

    def take(self, parts: Mapping[Part, Callable[[], bool]], in_time: Callable[[], bool]) -> None:
        """Turns, while there is time, of whoever still answers ``True``: that there is more to do.

        Of parts that never had one, the first of ``parts`` comes first. A turn is to be short: nobody ends it.
        """
        self._last = {part: self._last.get(part, 0) for part in parts}
        waiting = deque(sorted(parts, key=lambda part: self._last[part]))
        while waiting and in_time():
            part = waiting.popleft()
            self._number += 1
            self._last[part] = self._number
            if parts[part]():
                waiting.append(part)
