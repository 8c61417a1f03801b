"""How much one batch of a stream takes."""

from __future__ import annotations

from dataclasses import dataclass

from engine.bus import Rereads, gone
from engine.pipeline.source.reached import NOTHING, LogReached, Reached

#: More than any log holds.
ALL = 2**62


@dataclass(frozen=True, slots=True)
class _Log:
    """One log with something to read: from ``before`` to ``end``."""

    name: str
    before: LogReached
    end: LogReached
    #: How many of all it was ever given are gone; ``None`` where nobody counts.
    gone: int | None

    @property
    def waiting(self) -> int:
        return max(0, (self.end.added or 0) - (self.before.added or 0))

    def at(self, place: str, count: int, at_ms: int) -> LogReached:
        """What is said of it at a place that ``count`` of those it holds lie up to, beyond ``before``."""
        if place == self.end.at:
            return self.end
        added = None
        if self.gone is not None and self.before.added is not None:
            added = max(self.gone, self.before.added) + count
        return LogReached(place, added, self.end.life, at_ms)


class BatchLimit:
    """How far to go from ``reached`` towards ``ends``. Messages are counted exactly, by a walk through the ids of what
    is admitted, which costs the store about as much as to read it. A step is always made where there is something."""

    def __init__(self, rereads: Rereads, topic: str, reached: Reached, ends: Reached) -> None:
        self._rereads = rereads
        self._topic = topic
        self._all = {**reached, **ends}
        lost = {extent.log: gone(extent, 0) for extent in rereads.extents(topic)}
        logs = [_Log(name, _before(reached, name, end), end, lost.get(name)) for name, end in ends.items()]
        self._logs = [log for log in logs if log.before.at != log.end.at]

    def all(self) -> dict[str, LogReached]:
        return dict(self._all)

    def messages(self, most: int) -> dict[str, LogReached]:
        """At most so many over all logs, shared evenly; what one does not need goes to the others."""
        admitted, left = self.all(), most
        logs = sorted(self._logs, key=lambda log: log.waiting)
        for index, log in enumerate(logs):
            share = -(-left // (len(logs) - index))
            place, count = self._nth(log, log.end.at, share)
            left -= count
            # With fewer there are no more of it, though retention may have taken the last.
            admitted[log.name] = log.end if count < share else log.at(place, count, self._next_ms(log, place))
            if not share:
                admitted[log.name] = log.before
        return admitted

    def seconds(self, most: float) -> dict[str, LogReached]:
        """What was stored within so many seconds from the oldest that was not read."""
        admitted = self.all()
        firsts = {log.name: self._next_ms(log, log.before.at) for log in self._logs}
        edge_ms = min(firsts.values(), default=0) + max(1, int(most * 1000))
        for log in self._logs:
            if log.end.at_ms < edge_ms:
                continue
            if firsts[log.name] >= edge_ms:
                admitted[log.name] = log.before
                continue
            edge = self._rereads.place_before(self._topic, log.name, edge_ms)
            place, count = self._nth(log, edge, ALL)
            admitted[log.name] = log.at(place, count, edge_ms)
        return admitted

    def _nth(self, log: _Log, upto: str, number: int) -> tuple[str, int]:
        return self._rereads.nth_after(self._topic, log.name, log.before.at, upto=upto, number=number)

    def _next_ms(self, log: _Log, place: str) -> int:
        """When the first after that place was stored."""
        found = self._rereads.stretch(self._topic, log.name, place, upto=log.end.at, limit=1)
        return found.at_ms[0] if found.at_ms else log.end.at_ms


def _before(reached: Reached, log: str, end: LogReached) -> LogReached:
    """Where reading goes on; at the beginning where the log lives another life now."""
    before = reached.get(log, NOTHING)
    return before if not before.life or not end.life or before.life == end.life else NOTHING
