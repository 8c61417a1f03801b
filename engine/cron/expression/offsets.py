"""A time zone as spans of one offset each, so that gaps and repeated hours are plain arithmetic.

The rules come with the ``tzdata`` package and not from the machine: every node computes the same slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from itertools import pairwise
from zoneinfo import ZoneInfo

from engine.cron.expression.errors import UnknownZone

#: Spans are found in blocks of 2**25 seconds (388 days), from readings 2**16 seconds (18 hours) apart: no zone has
#: changed its offset there and back between two of them since 1970.
_BLOCK, _READING = 25, 16


@dataclass(frozen=True, slots=True)
class Span:
    """A time without a change of the clocks, from ``start`` until before ``end``, in seconds UTC.

    The wall shows UTC plus ``offset``. A span may end where nothing changes.
    """

    start: int
    end: int
    offset: int
    #: What the wall showed when the span before had ended, and shows when the next begins.
    wall_before: int
    wall_after: int


class Zone:
    """One zone of the IANA database. Thread-safe; had by :func:`zone`."""

    def __init__(self, name: str, rules: ZoneInfo) -> None:
        self.name = name
        self._rules = rules
        self._blocks: dict[int, tuple[Span, ...]] = {}

    def span(self, at: int) -> Span:
        """The span of the instant ``at``, in seconds UTC."""
        block = at >> _BLOCK
        spans = self._blocks.get(block)
        if spans is None:
            spans = self._blocks[block] = self._find(block)
        for span in spans:
            if at < span.end:
                break
        return span

    def instant(self, wall: datetime) -> int:
        """The instant, in seconds UTC, at which the wall shows ``wall``: the first of two, or as if no gap were."""
        return int(wall.replace(tzinfo=self._rules, fold=0).timestamp())

    def _find(self, block: int) -> tuple[Span, ...]:
        begin, end = block << _BLOCK, (block + 1) << _BLOCK
        readings = range(begin - (1 << _READING), end + (1 << _READING), 1 << _READING)
        changes = [
            self._change(at, at + (1 << _READING))
            for at in readings
            if self._offset(at) != self._offset(at + (1 << _READING))
        ]
        bounds = sorted({begin, end, *(at for at in changes if begin < at < end)})
        return tuple(self._between(start, stop) for start, stop in pairwise(bounds))

    def _between(self, start: int, end: int) -> Span:
        offset = self._offset(start)
        return Span(start, end, offset, start + self._offset(start - 1), end + self._offset(end))

    def _change(self, before: int, after: int) -> int:
        """The instant of the change between two readings that differ."""
        old = self._offset(before)
        while after - before > 1:
            middle = (before + after) // 2
            if self._offset(middle) == old:
                before = middle
            else:
                after = middle
        return after

    def _offset(self, at: int) -> int:
        # Beyond what Python's calendar can say, nothing changes any more.
        at = min(max(at, _EARLIEST), _LATEST)
        offset = datetime.fromtimestamp(at, tz=self._rules).utcoffset()
        return 0 if offset is None else round(offset.total_seconds())


_EARLIEST = round(datetime(1, 1, 3, tzinfo=UTC).timestamp())
_LATEST = round(datetime(9999, 12, 29, tzinfo=UTC).timestamp())


@cache
def zone(name: str) -> Zone:
    """The zone of that name. Raises :class:`~engine.cron.expression.errors.UnknownZone`."""
    if name not in _names():
        raise UnknownZone(name)
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return Zone(name, ZoneInfo.from_file(file, key=name))


@cache
def _names() -> frozenset[str]:
    return frozenset(resources.files("tzdata").joinpath("zones").read_text(encoding="ascii").split())
