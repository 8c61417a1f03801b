"""The wall times that an expression matches, in a calendar without zones.

Wall time is counted in seconds since 1970-01-01 00:00 on the wall, as if every day had 86,400 of them.
"""

from __future__ import annotations

from datetime import date

from engine.cron.expression.days import Days

DAY_S = 86_400
#: The ordinal of 1970-01-01 in Python's calendar.
_EPOCH_DAY = 719_163
_LAST_YEAR = 9_998


class Pattern:
    """Matching wall times, each found from the one before. Thread-safe."""

    __slots__ = ("_days", "_first_time", "_hours", "_minutes", "_month", "_months", "_seconds", "keeps_spacing")

    def __init__(self, seconds: int, minutes: int, hours: int, days: Days, months: int, *, keeps_spacing: bool) -> None:
        """Sets are bits, as in :mod:`engine.cron.expression.fields`."""
        self._seconds, self._minutes, self._hours = seconds, minutes, hours
        self._days, self._months = days, months
        #: Whether it means a spacing rather than times of day; see :mod:`engine.cron.expression.policy`.
        self.keeps_spacing = keeps_spacing
        self._first_time = _lowest(hours) * 3600 + _lowest(minutes) * 60 + _lowest(seconds)
        #: The month looked at last, or those left out between two: first day, day after, allowed days. Replaced whole.
        self._month = (0, 0, 0)

    @property
    def asks_both_days(self) -> bool:
        """Whether day of the month and day of the week must both allow a day."""
        return self._days.both

    @property
    def ever_fires(self) -> bool:
        """Whether any year has a day that it allows."""
        layouts = ((month, first, length) for month, lengths in _LENGTHS for length in lengths for first in range(7))
        return any(self._months >> month & 1 and self._days.of(first, length) for month, first, length in layouts)

    def next_from(self, wall: int) -> int | None:
        """The first match that is not before ``wall``; none after the year 9998."""
        day, time = divmod(wall, DAY_S)
        if self._allows(day):
            found = self._time_from(time)
            if found >= 0:
                return day * DAY_S + found
        found_day = self._day_from(day + 1)
        return None if found_day is None else found_day * DAY_S + self._first_time

    def _time_from(self, time: int) -> int:
        """The first matching second of a day from ``time``, or -1."""
        hour, rest = divmod(time, 3600)
        minute, second = divmod(rest, 60)
        hours = self._hours >> hour
        if hours & 1:
            minutes = self._minutes >> minute
            if minutes & 1:
                seconds = self._seconds >> second
                if seconds:
                    return time + _lowest(seconds)
                minutes ^= 1
            if minutes:
                return hour * 3600 + (minute + _lowest(minutes)) * 60 + _lowest(self._seconds)
            hours ^= 1
        if hours:
            return (hour + _lowest(hours)) * 3600 + self._first_time % 3600
        return -1

    def _allows(self, day: int) -> bool:
        begin, end, days = self._month
        if not begin <= day < end:
            begin, end, days = self._look_at(day)
        return bool(days >> day - begin & 1)

    def _day_from(self, day: int) -> int | None:
        begin, end, days = self._month
        if not begin <= day < end:
            begin, end, days = self._look_at(day)
        left = days >> day - begin
        while not left:
            if end + _EPOCH_DAY > _LAST_DAY:
                return None
            day = end
            begin, end, left = self._look_at(end)
        return day + _lowest(left)

    def _look_at(self, day: int) -> tuple[int, int, int]:
        of = date.fromordinal(day + _EPOCH_DAY)
        begin = day - of.day + 1
        if self._months >> of.month & 1:
            after = date(of.year + (of.month == 12), of.month % 12 + 1, 1).toordinal() - _EPOCH_DAY
            self._month = (begin, after, self._days.of(_weekday(begin), after - begin) >> 1)
        else:
            # Until the next month that it allows, in one step.
            later = self._months >> of.month << of.month
            next_month = date(of.year, _lowest(later), 1) if later else date(of.year + 1, _lowest(self._months), 1)
            self._month = (begin, next_month.toordinal() - _EPOCH_DAY, 0)
        return self._month


_LAST_DAY = date(_LAST_YEAR, 12, 31).toordinal()
#: The lengths that each month may have.
_LENGTHS = [(month, (28, 29) if month == 2 else (30,) if month in (4, 6, 9, 11) else (31,)) for month in range(1, 13)]


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _weekday(day: int) -> int:
    """0 is Monday; 1970 began with a Thursday."""
    return (day + 3) % 7
