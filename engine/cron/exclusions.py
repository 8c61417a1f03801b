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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from engine.core.errors import BadInput
from engine.cron.expression.offsets import Zone, zone

MOST_LINES = 1_000
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - on the wall
_TIMES = re.compile(r"(\d{1,2}:\d{2})\.\.(\d{1,2}:\d{2})")
_REMEDY = "Write 2026-12-25, 12-25, 2026-12-24..2027-01-02, Sat,Sun or 22:00..06:00, and words behind it."

#: Whether a time on the wall is among those that are left out.
_Holds = Callable[[datetime], bool]


@dataclass(frozen=True, slots=True)
class _Left:
    line: str
    holds: _Holds


class Exclusions:
    """Compiled; immutable and thread-safe. Had by :func:`compile_exclusions`."""

    __slots__ = ("_days", "_others", "_zone")

    def __init__(self, days: dict[date, str], others: tuple[_Left, ...], of: Zone) -> None:
        self._days, self._others, self._zone = days, others, of

    def why(self, at: int) -> str:
        """The line that leaves the instant ``at`` (seconds UTC) out; empty: none does."""
        wall = _EPOCH + timedelta(seconds=at + self._zone.span(at).offset)
        if line := self._days.get(wall.date()):
            return line
        return next((each.line for each in self._others if each.holds(wall)), "")


def compile_exclusions(text: str, zone_name: str = "UTC") -> Exclusions | None:
    """What ``text`` leaves out in that zone; ``None``: nothing. Raises ``BadInput`` naming the line."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        return None
    if len(lines) > MOST_LINES:
        raise BadInput(f"There are {len(lines):,} lines.", remedy=f"Write {MOST_LINES:,} at most.", field="excluded")
    days: dict[date, str] = {}
    others: list[_Left] = []
    for number, line in lines:
        try:
            single = _single_day(line)
            if single is None:
                others.append(_Left(line, _read(line)))
            else:
                days.setdefault(single, line)
        except ValueError as error:
            raise BadInput(f"Line {number}, {line!r}: {error}.", remedy=_REMEDY, field="excluded") from error
    return Exclusions(days, tuple(others), zone(zone_name))


def _single_day(line: str) -> date | None:
    first = line.split(maxsplit=1)[0]
    return _day(first) if re.fullmatch(r"\d{4}-\d{2}-\d{2}", first) else None


def _read(line: str) -> _Holds:
    first, _, rest = line.partition(" ")
    if re.fullmatch(r"\d{2}-\d{2}", first):
        return _yearly(first)
    if times := _TIMES.fullmatch(first):
        return _daily(times, frozenset(range(7)))
    if ".." in first:
        return _span(first)
    weekdays = _weekdays(first)
    if re.match(r"\d{1,2}:", rest.strip()) and not _TIMES.match(rest.strip()):
        raise ValueError(f"{rest.split()[0]} are no times")
    if times := _TIMES.match(rest.strip()):
        return _daily(times, weekdays)
    return lambda wall: wall.weekday() in weekdays


def _yearly(said: str) -> _Holds:
    # A leap year has every day that any year has.
    found = _day(f"2000-{said}")
    return lambda wall: (wall.month, wall.day) == (found.month, found.day)


def _span(said: str) -> _Holds:
    begin, _, end = said.partition("..")
    if "T" in said:
        first, last = _moment(begin), _moment(end)
        _in_order(first, last)
        return lambda wall: first <= wall < last
    from_day, to_day = _day(begin), _day(end)
    _in_order(from_day, to_day + timedelta(days=1))
    return lambda wall: from_day <= wall.date() <= to_day


def _daily(times: re.Match[str], weekdays: frozenset[int]) -> _Holds:
    begin, end = (_time(said) for said in times.groups())
    if begin == end:
        raise ValueError("it begins when it ends")
    if begin < end:
        return lambda wall: wall.weekday() in weekdays and begin <= wall.time() < end
    # It goes on into the next day.
    return lambda wall: (
        (wall.weekday() in weekdays and wall.time() >= begin)
        or ((wall.weekday() - 1) % 7 in weekdays and wall.time() < end)
    )


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
