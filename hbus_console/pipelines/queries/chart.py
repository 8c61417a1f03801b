"""The result of a query as a picture: its first column along the bottom, each column of numbers as bars or a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import Any

from engine.pipeline.query.spec import QueryAnswer, QueryColumn

#: The picture's own measures; the browser stretches it.
WIDTH, HEIGHT, _LEFT, _BOTTOM, _TOP = 720, 220, 56, 24, 10
#: More rows than these are a line, and still more are not drawn at all; columns that are drawn.
MOST_BARS, MOST_POINTS, MOST_SERIES = 40, 1_000, 4
#: Names under the axis at most, and characters of one.
_NAMES, _NAME = 8, 14
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
    columns = [place for place, column in enumerate(answer.columns) if place and is_number(column)][:MOST_SERIES]
    if not columns or not 2 <= len(answer.rows) <= MOST_POINTS:
        return None
    values = {place: [_number(row[place]) for row in answer.rows] for place in columns}
    known = [value for of_one in values.values() for value in of_one if value is not None]
    if not known:
        return None
    steps = _steps(min(0.0, *known), max(0.0, *known))
    low, high = steps[0], steps[-1]

    def y(value: float) -> float:
        return round(_TOP + (high - value) / (high - low) * (HEIGHT - _BOTTOM - _TOP), 1)

    room = (WIDTH - _LEFT) / len(answer.rows)
    names = [_name(row[0]) for row in answer.rows]
    is_time = bool(_TIME.fullmatch(answer.columns[0].type))
    drawn = []
    for number, place in enumerate(columns):
        name, of_one = answer.columns[place].name, values[place]
        if is_time or len(answer.rows) > MOST_BARS:
            drawn.append(ChartSeries(name, line=_line([y(v) if v is not None else None for v in of_one], room)))
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
    every = -(-len(names) // _NAMES)
    below = [_below(round(_LEFT + room * (row + 0.5), 1), names[row][:_NAME]) for row in range(0, len(names), every)]
    beside = [ChartText(_LEFT - 6, y(step), f"{step:,.10g}", "end") for step in steps]
    return ResultChart(drawn, below, beside, y(0))


def _below(x: float, name: str) -> ChartText:
    """Under the axis; one at the right edge ends there."""
    reaches = 3.2 * len(name)
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


def _line(ys: Sequence[float | None], room: float) -> str:
    """Broken where there is no value."""
    parts, pen = [], "M"
    for place, y in enumerate(ys):
        if y is None:
            pen = "M"
            continue
        parts.append(f"{pen}{round(_LEFT + room * (place + 0.5), 1)} {y}")
        pen = "L"
    return "".join(parts)


def _steps(low: float, high: float) -> list[float]:
    """Round values from below the lowest to above the highest, three to seven."""
    span = (high - low) or 1.0
    rough = 10.0 ** floor(log10(span / 4))
    step = next(rough * each for each in (1, 2, 5, 10) if span / (rough * each) <= 5)
    first, last = floor(low / step), -floor(-high / step)
    return [place * step for place in range(first, max(last, first + 1) + 1)]
