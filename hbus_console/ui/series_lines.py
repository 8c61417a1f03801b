"""Series as charts.js draws them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from engine.core.errors import BadInput

Value = float | None
_Point = TypeVar("_Point")
_Chart = TypeVar("_Chart")


@dataclass(frozen=True)
class SeriesLine(Generic[_Point]):
    """One line of a chart: what it takes of each point."""

    name: str
    tone: str
    of: Callable[[_Point], Value]
    #: Of a span in which nothing happened.
    none: Value = None
    area: bool = False
    quiet: bool = False


def chart_named(charts: Mapping[str, _Chart], what: str) -> _Chart:
    """Raises :class:`BadInput` for a chart that there is not."""
    if what not in charts:
        raise BadInput(f"There is no chart {what[:20]!r}.", remedy=f"Use one of {', '.join(charts)}.", field="what")
    return charts[what]


def drawn(
    lines: Iterable[SeriesLine[_Point]], steps: Sequence[int], found: Mapping[int, _Point], unit: str
) -> dict[str, Any]:
    """The answer that charts.js takes: a value of each line for each step, by the points that begin there."""
    return {
        "t": list(steps),
        "unit": unit,
        "series": [
            {
                "name": line.name,
                "tone": line.tone,
                "values": [line.of(found[at]) if at in found else line.none for at in steps],
                "area": line.area,
                "quiet": line.quiet,
            }
            for line in lines
        ],
        "marks": [],
    }
