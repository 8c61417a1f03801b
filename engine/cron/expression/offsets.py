"""A time zone as spans of one offset each, so that gaps and repeated hours are plain arithmetic.

The rules come with the ``tzdata`` package and not from the machine: every node computes the same slots.
"""

from __future__ import annotations

import io
import struct
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from engine.cron.expression.errors import UnknownZone

#: Spans are found in blocks of 2**25 seconds (388 days). Behind the changes that the database names a rule goes on: it
#: is read 2**21 seconds (24 days) apart, for rules change the offset twice a year at most, months apart.
_BLOCK, _READING = 25, 21


@dataclass(frozen=True, slots=True)
class Span:
    """A time without a change of the clocks, from ``start`` until before ``end``, in seconds UTC.

    The wall shows UTC plus ``offset``. A span may end where nothing changes, and then nothing does for a day: no time
    that is left out or repeated reaches across such an end.
    """

    start: int
    end: int
    offset: int
    #: What the wall showed when the span before had ended, and shows when the next begins.
    wall_before: int
    wall_after: int


class Named(NamedTuple):
    """What a file of the database says of changes, as RFC 9636 has it."""

    #: Their instants, also of those that change a name alone.
    changes: tuple[int, ...]
    #: Whether behind the last of them a rule goes on that changes the offset.
    by_rule: bool


class Zone:
    """One zone of the IANA database. Thread-safe; had by :func:`zone`."""

    def __init__(self, name: str, rules: ZoneInfo, named: Named) -> None:
        self.name = name
        self._rules, self._named = rules, named
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
        # Beyond both ends as far as the largest change reaches, a day.
        lowest, highest = begin - (1 << _READING), end + (1 << _READING)
        named = self._named.changes
        told = set(named[bisect_left(named, lowest) : bisect_right(named, highest)])
        found = {at for at in told if self._offset(at - 1) != self._offset(at)}
        if self._named.by_rule and (not named or highest > named[-1]):
            readings = range(max(lowest, *named[-1:]), highest + 1, 1 << _READING)
            offsets = [(at, self._offset(at)) for at in readings]
            found |= {self._change(at, later) for (at, was), (later, now) in pairwise(offsets) if was != now}
        changes = sorted(found)
        first = max((at for at in changes if at <= begin), default=begin)
        last = min((at for at in changes if at >= end), default=end)
        bounds = [first, *(at for at in changes if begin < at < end), last]
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


#: Of a part of such a file: how long its head is, and where in it how many there are of each stands.
_HEAD, _COUNTS_AT, _COUNTS = 44, 20, ">6l"
_EARLIEST = round(datetime(1, 1, 3, tzinfo=UTC).timestamp())
_LATEST = round(datetime(9999, 12, 29, tzinfo=UTC).timestamp())


@cache
def zone(name: str) -> Zone:
    """The zone of that name. Raises :class:`~engine.cron.expression.errors.UnknownZone`."""
    if name not in _names():
        raise UnknownZone(name)
    data = resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    return Zone(name, ZoneInfo.from_file(io.BytesIO(data), key=name), read_named(data))


def read_named(data: bytes) -> Named:
    """Python's calendar knows them too, and tells them to nobody."""
    of_utc, of_standard, leaps, times, types, letters = struct.unpack_from(_COUNTS, data, _COUNTS_AT)
    # A first part, for readers that know short numbers alone; of the second everything is read.
    second = _HEAD + times * 5 + types * 6 + letters + leaps * 8 + of_standard + of_utc
    times = struct.unpack_from(_COUNTS, data, second + _COUNTS_AT)[3]
    changes = struct.unpack_from(f">{times}q", data, second + _HEAD)
    rule = data.rstrip(b"\n").rpartition(b"\n")[2]
    return Named(changes, b"," in rule)


@cache
def _names() -> frozenset[str]:
    return frozenset(resources.files("tzdata").joinpath("zones").read_text(encoding="ascii").split())
