"""Which days of a month an expression allows.

Day of the month and day of the week are joined by Vixie cron's rule: where both are restricted, either will do. The one
exception is what croniter and cronsim agree on: a stepped star beside an n-th weekday asks for both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.cron.expression.fields import DAY, WEEKDAY, Piece, every_value, item, value

#: What says nothing about the days. ``*/2`` does, and so does ``1-31``: robfig and croniter read them so.
STARS = ("*", "?", "*/1")

_NEAREST = re.compile(r"(\d+)W")
_NTH = re.compile(r"([^#]*)#(.*)")
_LAST = re.compile(r"(.+)L|L(.+)")


@dataclass(frozen=True, slots=True)
class Days:
    """Days of a month. Sets are bits, as in :mod:`engine.cron.expression.fields`."""

    #: Of the month, by number.
    numbers: int
    #: Days whose nearest day from Monday to Friday is meant.
    nearest: int
    last: bool
    last_working: bool
    #: Of the week, 0 is Sunday.
    weekdays: int
    #: (weekday, n): the n-th of its month; 0 is the last.
    nth: frozenset[tuple[int, int]]
    #: Whether the field says anything.
    by_number: bool
    by_weekday: bool
    #: Whether both must allow a day where both say something.
    both: bool

    def of(self, first: int, length: int) -> int:
        """The set of days of a month of ``length`` days that begins on the weekday ``first`` (0 is Monday)."""
        whole = (2 << length) - 2
        if self.by_number and self.by_weekday:
            numbers, weekdays = self._by_number(first, length), self._by_weekday(first, length)
            return (numbers & weekdays if self.both else numbers | weekdays) & whole
        if self.by_number:
            return self._by_number(first, length) & whole
        if self.by_weekday:
            return self._by_weekday(first, length) & whole
        return whole

    def _by_number(self, first: int, length: int) -> int:
        bits = self.numbers
        if self.last:
            bits |= 1 << length
        if self.last_working:
            bits |= 1 << _working_day_nearest(length, first, length)
        for day in range(1, length + 1):
            if self.nearest >> day & 1:
                bits |= 1 << _working_day_nearest(day, first, length)
        return bits

    def _by_weekday(self, first: int, length: int) -> int:
        bits = 0
        for day in range(1, length + 1):
            weekday = (first + day) % 7
            which = {(weekday, (day + 6) // 7), *([(weekday, 0)] if day + 7 > length else [])}
            if self.weekdays >> weekday & 1 or which & self.nth:
                bits |= 1 << day
        return bits


def _working_day_nearest(day: int, first: int, length: int) -> int:
    """The day from Monday to Friday that is nearest to ``day`` in the same month."""
    weekday = (first + day - 1) % 7
    if weekday == 5:
        return day - 1 if day > 1 else day + 2
    if weekday == 6:
        return day + 1 if day < length else day - 2
    return day


def read_days(by_number: Piece, by_weekday: Piece, job: str) -> Days:
    """The two fields read. Raises :class:`~engine.cron.expression.errors.BadExpression`."""
    numbers, nearest, last, last_working = _read_numbers(by_number, job)
    weekdays, nth = _read_weekdays(by_weekday, job)
    return Days(
        numbers,
        nearest,
        last,
        last_working,
        weekdays,
        frozenset(nth),
        by_number.text not in STARS,
        by_weekday.text not in STARS,
        by_number.text.startswith("*/") and not weekdays,
    )


def _read_numbers(piece: Piece, job: str) -> tuple[int, int, bool, bool]:
    numbers = nearest = 0
    last = last_working = False
    if piece.text == "?":
        return every_value(DAY), 0, False, False
    for each in piece.items():
        if each.text == "L":
            last = True
        elif each.text in ("LW", "WL"):
            last_working = True
        elif found := _NEAREST.fullmatch(each.text):
            nearest |= 1 << value(DAY, each, found[1])
        elif each.text.startswith("L"):
            remedy = (
                "Of the end of a month only L (its last day) and LW (its last day from Monday to Friday) are known."
            )
            raise each.refuse(f"{each.text!r} is no day of the month", remedy)
        else:
            numbers |= item(DAY, each, job)
    return numbers, nearest, last, last_working


def _read_weekdays(piece: Piece, job: str) -> tuple[int, set[tuple[int, int]]]:
    weekdays = 0
    nth: set[tuple[int, int]] = set()
    if piece.text == "?":
        return every_value(WEEKDAY), nth
    for each in piece.items():
        if found := _NTH.fullmatch(each.text):
            if found[2] not in ("1", "2", "3", "4", "5"):
                remedy = "After # stands which one of its month, 1 to 5; the last one is written 5L."
                raise each.refuse(f"no month has a {found[2] or 'missing'}th of one weekday", remedy, part="#")
            nth.add((value(WEEKDAY, each, found[1]) % 7, int(found[2])))
        elif each.text == "L":
            raise each.refuse("L says the last of which weekday it means", "Write 5L for the last Friday of a month.")
        elif (found := _LAST.fullmatch(each.text)) and each.text.upper() not in WEEKDAY.names:
            nth.add((value(WEEKDAY, each, found[1] or found[2]) % 7, 0))
        else:
            weekdays |= item(WEEKDAY, each, job)
    return weekdays, nth
