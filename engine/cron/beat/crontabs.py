"""Celery's ``crontab`` as the rule that it is, and in words of ours where they say the same.

Both days said: Celery asks for both, and an expression of ours for either (docs/cron-semantics.md). So the two are
taken from the sets that Celery has made of its fields, and never from their text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from engine.core.errors import BadInput
from engine.cron.expression.days import Days
from engine.cron.expression.fields import DAY, HOUR, MINUTE, MONTH, WEEKDAY, Field, every_value
from engine.cron.expression.pattern import Pattern

_STEPPED = re.compile(r"\*/([1-9]\d{0,3})")
#: Days of a month by which of their weekday they are: the first, the second, …
_WEEKS = tuple(frozenset(range(begin, min(begin + 7, 32))) for begin in range(1, 32, 7))


def pattern_of(tab: Any) -> Pattern:
    """The wall times of a ``crontab``, exactly. Raises ``BadInput`` for one that never fires."""
    numbers, weekdays = _bits(tab.day_of_month), _bits(tab.day_of_week)
    by_number, by_weekday = numbers != every_value(DAY), weekdays != every_value(WEEKDAY)
    days = Days(numbers, 0, False, False, weekdays, frozenset(), by_number, by_weekday, both=True)
    spaced = any(text.startswith("*") for text in _times(tab))
    pattern = Pattern(1, _bits(tab.minute), _bits(tab.hour), days, _bits(tab.month_of_year), keeps_spacing=spaced)
    if not pattern.ever_fires:
        raise BadInput("Its days never come together.", remedy="Write days that one of its months has.")
    return pattern


def expression_of(tab: Any) -> str:
    """The expression that fires when the ``crontab`` does. Raises ``BadInput`` where none does."""
    numbers, weekdays = _values(tab.day_of_month), _values(tab.day_of_week)
    day, weekday = _written(DAY, numbers), _written(WEEKDAY, weekdays)
    if day != "*" and weekday != "*":
        day, weekday = _both(numbers, weekdays)
    return " ".join((*_times(tab), day, _written(MONTH, _values(tab.month_of_year)), weekday))


def identity_of(tab: Any) -> str:
    """A text that two of them share if they mean the same."""
    fields = (tab.minute, tab.hour, tab.day_of_month, tab.month_of_year, tab.day_of_week)
    sets = (",".join(map(str, _values(each))) for each in fields)
    # How the times are written decides what a change of the clocks makes of them.
    return " ".join((*_times(tab), *sets))


def _both(numbers: list[int], weekdays: list[int]) -> tuple[str, str]:
    """The two day fields that ask for a day of both sets: n-th weekdays say whole weeks, ``*/N`` days in steps."""
    weeks = [week for week in _WEEKS if week <= set(numbers)]
    if sum(map(len, weeks)) == len(numbers):
        return "*", _nth(weekdays, (_WEEKS.index(week) + 1 for week in weeks))
    for step in range(2, 32):
        if numbers == list(range(1, 32, step)):
            return f"*/{step}", _nth(weekdays, range(1, 6))
    raise BadInput(
        "It asks for a day of the month and a day of the week at once, and an expression here for either of them.",
        remedy="Name whole weeks (day_of_month 1-7, 8-14, 15-21, 22-28 or 29-31) or steps (*/N), leave one of the two "
        "at *, or have the task look at the day itself.",
    )


def _nth(weekdays: list[int], weeks: Iterable[int]) -> str:
    return ",".join(f"{weekday}#{week}" for week in weeks for weekday in weekdays)


def _times(tab: Any) -> tuple[str, str]:
    """Minute and hour. A stepped star stays one: it means a spacing, and a list of the same numbers times of day."""
    said = ((MINUTE, tab.minute, tab._orig_minute), (HOUR, tab.hour, tab._orig_hour))
    return tuple(_time(of, _values(found), text) for of, found, text in said)  # type: ignore[return-value]


def _time(of: Field, values: list[int], said: object) -> str:
    step = _STEPPED.fullmatch(said) if isinstance(said, str) else None
    if step is not None and values == list(range(of.low, of.high + 1, int(step[1]))):
        return "*" if step[1] == "1" else f"*/{int(step[1])}"
    return _written(of, values)


def _written(of: Field, values: list[int]) -> str:
    """Values as a list of values and ranges; all of them are a star."""
    if len(values) == of.high - of.low + 1:
        return "*"
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)


def _values(found: Iterable[Any]) -> list[int]:
    return sorted({int(each) for each in found})


def _bits(found: Iterable[Any]) -> int:
    return sum(1 << value for value in _values(found))
