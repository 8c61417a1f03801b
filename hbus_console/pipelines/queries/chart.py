"""The result of a query as a picture: its first column along the bottom, each column of numbers as bars or a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from datetime import time as time_of_day
from itertools import groupby
from math import floor, isfinite, log10
from typing import Any

from engine.pipeline.query.spec import QueryAnswer, QueryColumn

#: The picture's own measures; the browser stretches it.
WIDTH, HEIGHT, _LEFT, _BOTTOM, _TOP = 720, 220, 56, 24, 10
#: More rows than these are a line, and still more are not drawn at all; columns that are drawn.
MOST_BARS, MOST_POINTS, MOST_SERIES = 40, 1_000, 4
#: Names under the axis at most, and characters of one.
_NAMES, _NAME = 8, 14
#: About half the width of a character, and what is free beside the first and the last time.
_REACH, _MARGIN = 3.2, 12
_NUMBER = re.compile(r"(?:U?(?:TINY|SMALL|BIG|HUGE)INT|U?INTEGER|DOUBLE|FLOAT|DECIMAL.*)")
_TIME = re.compile(r"(?:DATE|TIMESTAMP.*)")


@dataclass(frozen=True, slots=True)
class ChartText:
    """Something that is written in it."""

    x: float
    y: float
    text: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True)
class ChartBar:
    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """One column: its bars, or its line."""

    name: str
    bars: Sequence[ChartBar] = ()
    line: str = ""


@dataclass(frozen=True, slots=True)
class ResultChart:
    series: Sequence[ChartSeries]
    below: Sequence[ChartText]
    beside: Sequence[ChartText]
    #: Where nought is.
    base: float


def chart_of(answer: QueryAnswer) -> ResultChart | None:
    """``None`` where there is nothing to draw: one column, no column of numbers, one row, or too many."""
    if not 2 <= len(answer.rows) <= MOST_POINTS:
        return None
    numbers = [place for place, column in enumerate(answer.columns) if place and is_number(column)]
    every = {place: [_number(row[place]) for row in answer.rows] for place in numbers}
    # Of a column of which nothing is known there is nothing to draw, and so nothing to name.
    columns = [place for place in numbers if any(value is not None for value in every[place])][:MOST_SERIES]
    if not columns:
        return None
    values = {place: every[place] for place in columns}
    known = [value for of_one in values.values() for value in of_one if value is not None]
    steps = _steps(min(0.0, *known), max(0.0, *known))
    low, high = steps[0], steps[-1]

    def y(value: float) -> float:
        return round(_TOP + (high - value) / (high - low) * (HEIGHT - _BOTTOM - _TOP), 1)

    room = (WIDTH - _LEFT) / len(answer.rows)
    names = [_name(row[0]) for row in answer.rows]
    times = _times(answer)
    if times:
        xs = _by_time(times)
        below = _times_below([(time, xs[row]) for row, time in times])
    else:
        xs = {row: round(_LEFT + room * (row + 0.5), 1) for row in range(len(names))}
        below = [_below(xs[row], _shown(names[row])) for row in range(0, len(names), -(-len(names) // _NAMES))]
    drawn = []
    for number, place in enumerate(columns):
        name, of_one = answer.columns[place].name, values[place]
        if times or len(answer.rows) > MOST_BARS:
            line = [(x, None if (value := of_one[row]) is None else y(value)) for row, x in xs.items()]
            drawn.append(ChartSeries(name, line=_line(line)))
            continue
        width = room * 0.8 / len(columns)
        drawn.append(
            ChartSeries(
                name,
                bars=[
                    ChartBar(
                        round(_LEFT + room * (row + 0.1) + width * number, 1),
                        min(y(value), y(0)),
                        round(width * 0.92, 1),
                        round(abs(y(value) - y(0)), 1),
                        f"{names[row]}: {name} {value:,.10g}",
                    )
                    for row, value in enumerate(of_one)
                    if value is not None
                ],
            )
        )
    beside = [ChartText(_LEFT - 6, y(step), f"{step:,.10g}", "end") for step in steps]
    return ResultChart(drawn, below, beside, y(0))


def _below(x: float, name: str) -> ChartText:
    """Under the axis; one at the right edge ends there."""
    reaches = _REACH * len(name)
    return ChartText(WIDTH, HEIGHT - 7, name, "end") if x + reaches > WIDTH else ChartText(x, HEIGHT - 7, name)


def is_number(column: QueryColumn) -> bool:
    return bool(_NUMBER.fullmatch(column.type))


def _number(value: Any) -> float | None:
    """Of a large or an exact one the text is told."""
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _name(value: Any) -> str:
    if isinstance(value, str):
        return value.removesuffix("T00:00:00")
    return "–" if value is None else str(value)


def _shown(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _times(answer: QueryAnswer) -> list[tuple[int, datetime]]:
    """The rows in the order of their times, with these, in UTC as the table has them; without rows that have none.
    Empty: the first column has not two times to tell apart."""
    if not _TIME.fullmatch(answer.columns[0].type):
        return []
    found = [(row, time) for row, cells in enumerate(answer.rows) if (time := _time(cells[0])) is not None]
    found.sort(key=lambda each: each[1])
    return found if found and found[0][1] < found[-1][1] else []


def _time(value: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        # Null, or a moment that no calendar has.
        return None
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def _by_time(times: Sequence[tuple[int, datetime]]) -> dict[int, float]:
    """Where each row is, by its number; as far from the next one as its time is from that one's."""
    first, last = times[0][1], times[-1][1]
    width = WIDTH - _LEFT - 2 * _MARGIN
    return {row: round(_LEFT + _MARGIN + width * ((time - first) / (last - first)), 1) for row, time in times}


def _times_below(points: Sequence[tuple[datetime, float]]) -> list[ChartText]:
    """Those of the times that have room beside each other, as the axes of other charts write them."""
    days = {time.date() for time, _ in points}
    parts = []
    if len(days) > 1:
        parts.append("{0.day} {0:%b}" if len({day.year for day in days}) == 1 else "{0.day} {0:%b} {0.year}")
    if any(time.time() != time_of_day.min for time, _ in points):
        parts.append("{0:%H:%M:%S}" if any(time.second or time.microsecond for time, _ in points) else "{0:%H:%M}")
    form = " ".join(parts)
    below: list[ChartText] = []
    free = 0.0
    for time, x in points:
        mark = _below(x, form.format(time))
        width = 2 * _REACH * len(mark.text)
        left = mark.x - (width if mark.anchor == "end" else width / 2)
        if left >= free:
            below.append(mark)
            free = max(left + width + 2 * _REACH, left + (WIDTH - _LEFT) / _NAMES)
    return below


def _line(points: Iterable[tuple[float, float | None]]) -> str:
    """Broken where there is no value; what stands alone is a stub, for a line needs two."""
    parts: list[str] = []
    for is_known, of_it in groupby(points, key=lambda point: point[1] is not None):
        if is_known:
            stretch = list(of_it)
            x, y = stretch[0]
            parts.append(f"M{x} {y}" if len(stretch) > 1 else f"M{x - 2} {y}h4")
            parts += [f"L{x} {y}" for x, y in stretch[1:]]
    return "".join(parts)


def _steps(low: float, high: float) -> list[float]:
    """Round values from below the lowest to above the highest, three to seven."""
    span = (high - low) or 1.0
    rough = 10.0 ** floor(log10(span / 4))
    step = next(rough * each for each in (1, 2, 5, 10) if span / (rough * each) <= 5)
    first, last = floor(low / step), -floor(-high / step)
    return [place * step for place in range(first, max(last, first + 1) + 1)]
