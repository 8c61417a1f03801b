"""Days and times at which nothing of a job runs: holidays, freezes, weekends. Read from lines, judged by the wall.

=========================================  ===========================================================
``2026-12-25 Christmas``                   that day; what follows is said of the slots that it skips
``12-25``                                  that day of every year
``2026-12-24..2027-01-02``                 those days, the last one too
``2026-12-31T18:00..2027-01-01T06:00``     from that time until before the other
``Sat,Sun``, ``Mon-Fri``                   those days of every week
``22:00..06:00``, ``Sun 02:00..04:00``     between those times of every day, or of those that begin so
=========================================  ===========================================================
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import reduce
from math import inf
from operator import attrgetter, or_
from typing import Protocol, TypeVar

from engine.core.errors import BadInput
from engine.cron.expression import Schedule, Slot
from engine.cron.expression.offsets import Zone, zone

Found = TypeVar("Found")

MOST_LINES = 1_000
#: Lines that are none, as many as a refusal tells.
_TOLD = 5
#: So many windows behind each other, each of which leaves out the next slot: more than there are lines for single days,
#: and than the days of four years.
MOST_WINDOWS = 1_500
#: So far ahead slots are looked for. From a 29th of February to the next on the same weekday it is 40 years at most.
HORIZON_YEARS = 100
_HORIZON_S = HORIZON_YEARS * 31_556_952
#: Why there is none.
NONE_AHEAD = f"none within {HORIZON_YEARS} years, or behind {MOST_WINDOWS:,} times that are left out"
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - on the wall
_TIMES = re.compile(r"(\d{1,2}:\d{2})\.\.(\d{1,2}:\d{2})")
_REMEDY = "Write 2026-12-25, 12-25, 2026-12-24..2027-01-02, Sat,Sun or 22:00..06:00, and words behind it."

#: The minutes of a day, each as a bit, the first the lowest.
_DAY_MINUTES = 1_440
_WHOLE_DAY = (1 << _DAY_MINUTES) - 1


class _Line(Protocol):
    """What a line leaves out, but a single day."""

    def holds(self, wall: datetime) -> bool: ...


@dataclass(frozen=True, slots=True)
class _Yearly:
    month: int
    day: int

    def holds(self, wall: datetime) -> bool:
        return (wall.month, wall.day) == (self.month, self.day)


@dataclass(frozen=True, slots=True)
class _Span:
    begin: datetime
    end: datetime

    def holds(self, wall: datetime) -> bool:
        return self.begin <= wall < self.end


@dataclass(frozen=True, slots=True)
class _Weekly:
    #: Of each day of the week, Monday first, which minutes.
    minutes: tuple[int, ...]

    def holds(self, wall: datetime) -> bool:
        return bool(self.minutes[wall.weekday()] >> _minute(wall) & 1)


class Exclusions:
    """Compiled; immutable and thread-safe. Had by :func:`compile_exclusions`.

    All lines together are few windows: where one ends is had at once, however many lines make it.
    """

    __slots__ = ("_begins", "_days", "_others", "_spans", "_week", "_yearly", "_zone")

    def __init__(self, days: dict[date, str], others: tuple[tuple[str, _Line], ...], of: Zone) -> None:
        self._days, self._others, self._zone = days, others, of
        lines = [line for _, line in others]
        self._yearly = {(each.month, each.day) for each in lines if isinstance(each, _Yearly)}
        weekly = [each.minutes for each in lines if isinstance(each, _Weekly)]
        self._week = [reduce(or_, day, 0) for day in zip(*weekly, strict=True)] or [0] * 7
        self._spans = _joined(each for each in lines if isinstance(each, _Span))
        self._begins = [each.begin for each in self._spans]

    def why(self, at: int) -> str:
        """The line that leaves the instant ``at`` (seconds UTC) out; empty: none does."""
        wall = _EPOCH + timedelta(seconds=at + self._zone.span(at).offset)
        if line := self._days.get(wall.date()):
            return line
        return next((text for text, line in self._others if line.holds(wall)), "")

    def until(self, at: int) -> int:
        """All instants from ``at`` up to before this one are left out; ``at`` itself: it is not."""
        span = self._zone.span(at)
        wall = _EPOCH + timedelta(seconds=at + span.offset)
        midnight = datetime.combine(wall, time())
        # Those of the rest of the day, as many as are set from this one on.
        rest = self._week[wall.weekday()] >> _minute(wall)
        minutes = (~rest & (rest + 1)).bit_length() - 1
        ends = [midnight + timedelta(minutes=_minute(wall) + minutes)] if minutes else []
        if wall.date() in self._days or (wall.month, wall.day) in self._yearly:
            ends.append(midnight + timedelta(days=1))
        place = bisect_right(self._begins, wall) - 1
        if place >= 0 and wall < self._spans[place].end:
            ends.append(self._spans[place].end)
        if not ends:
            return at
        # Behind a change of the clock the wall may show again what is before the window.
        return min(at + int((max(ends) - wall).total_seconds()), span.end)


def compile_exclusions(text: str, zone_name: str = "UTC") -> Exclusions | None:
    """What ``text`` leaves out in that zone; ``None``: nothing. Raises ``BadInput`` naming the lines."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        return None
    if len(lines) > MOST_LINES:
        raise BadInput(f"There are {len(lines):,} lines.", remedy=f"Write {MOST_LINES:,} at most.", field="excluded")
    days: dict[date, str] = {}
    others: list[tuple[str, _Line]] = []
    wrong: list[str] = []
    for number, line in lines:
        try:
            single = _single_day(line)
            if single is None:
                others.append((line, _read(line)))
            else:
                days.setdefault(single, line)
        except (ValueError, OverflowError) as error:
            wrong.append(f"Line {number}, {line!r}: {error}.")
    if wrong:
        more = [f"So are {len(wrong) - _TOLD:,} more."] if len(wrong) > _TOLD else []
        raise BadInput(" ".join([*wrong[:_TOLD], *more]), remedy=_REMEDY, field="excluded")
    return Exclusions(days, tuple(others), zone(zone_name))


def kept(schedule: Schedule, left_out: Exclusions | None, after: int) -> Iterator[Slot]:
    """The slots of ``schedule`` after the instant ``after`` that are not left out.

    They end where :data:`MOST_WINDOWS` leave out each that comes, and :data:`HORIZON_YEARS` after that instant.
    """
    horizon = after + _HORIZON_S
    return walk(schedule.after, attrgetter("at"), left_out, after, until=horizon, most_windows=MOST_WINDOWS)


def walk(
    next_after: Callable[[int], Found | None],
    at_of: Callable[[Found], int],
    left_out: Exclusions | None,
    after: int,
    *,
    until: float = inf,
    most_windows: float = inf,
) -> Iterator[Found]:
    """What ``next_after`` finds behind ``after``, up to ``until``, that is not left out at its instant ``at_of``.

    It ends where so many windows behind each other leave out each that comes. It costs what the windows do, not what
    lies in them.
    """
    found, windows = next_after(after), 0
    while found is not None and windows < most_windows and (at := at_of(found)) <= until:
        ends = left_out.until(at) if left_out else at
        if ends == at:
            windows = 0
            yield found
        else:
            windows += 1
        found = next_after(max(at, ends - 1))


def _single_day(line: str) -> date | None:
    first = line.split(maxsplit=1)[0]
    return _day(first) if re.fullmatch(r"\d{4}-\d{2}-\d{2}", first) else None


def _read(line: str) -> _Line:
    first, _, rest = line.partition(" ")
    if re.fullmatch(r"\d{2}-\d{2}", first):
        # A leap year has every day that any year has.
        found = _day(f"2000-{first}")
        return _Yearly(found.month, found.day)
    if times := _TIMES.fullmatch(first):
        return _daily(times, frozenset(range(7)))
    if ".." in first:
        return _span(first)
    weekdays = _weekdays(first)
    if re.match(r"\d{1,2}:", rest.strip()) and not _TIMES.match(rest.strip()):
        raise ValueError(f"{rest.split()[0]} are no times")
    if times := _TIMES.match(rest.strip()):
        return _daily(times, weekdays)
    return _Weekly(tuple(_WHOLE_DAY if day in weekdays else 0 for day in range(7)))


def _span(said: str) -> _Span:
    begin, _, end = said.partition("..")
    if "T" in said:
        first, last = _moment(begin), _moment(end)
        _in_order(first, last)
        return _Span(first, last)
    from_day, behind = _day(begin), _day(end) + timedelta(days=1)
    _in_order(from_day, behind)
    return _Span(datetime.combine(from_day, time()), datetime.combine(behind, time()))


def _daily(times: re.Match[str], weekdays: frozenset[int]) -> _Weekly:
    begin, end = (_minute(_time(said)) for said in times.groups())
    if begin == end:
        raise ValueError("it begins when it ends")
    until_midnight, before = _WHOLE_DAY >> begin << begin, (1 << end) - 1
    if begin < end:
        return _Weekly(tuple(until_midnight & before if day in weekdays else 0 for day in range(7)))
    # It goes on into the next day.
    return _Weekly(
        tuple(
            (until_midnight if day in weekdays else 0) | (before if (day - 1) % 7 in weekdays else 0)
            for day in range(7)
        )
    )


def _joined(spans: Iterable[_Span]) -> list[_Span]:
    """In their order, those that touch made one."""
    found: list[_Span] = []
    for each in sorted(spans, key=attrgetter("begin")):
        if found and each.begin <= found[-1].end:
            found[-1] = _Span(found[-1].begin, max(found[-1].end, each.end))
        else:
            found.append(each)
    return found


def _minute(of: datetime | time) -> int:
    return of.hour * 60 + of.minute


def _weekdays(said: str) -> frozenset[int]:
    return frozenset(day for part in said.lower().split(",") for day in _of_week(part))


def _of_week(part: str) -> Iterator[int]:
    begin, dash, end = part.partition("-")
    for name in (begin, end) if dash else (begin,):
        if name not in _DAYS:
            raise ValueError(f"{name or 'nothing'} is no day")
    first = _DAYS.index(begin)
    last = _DAYS.index(end) if dash else first
    return iter([(first + step) % 7 for step in range((last - first) % 7 + 1)])


def _in_order(begin: date, end: date) -> None:
    if begin >= end:
        raise ValueError("it ends before it begins")


def _day(said: str) -> date:
    try:
        return date.fromisoformat(said)
    except ValueError:
        raise ValueError(f"there is no day {said}") from None


def _moment(said: str) -> datetime:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2})?", said):
        raise ValueError(f"{said} is no time on the wall")
    try:
        return datetime.fromisoformat(said)
    except ValueError:
        raise ValueError(f"there is no time {said}") from None


def _time(said: str) -> time:
    try:
        return time.fromisoformat(said.zfill(5))
    except ValueError:
        raise ValueError(f"there is no time {said}") from None
