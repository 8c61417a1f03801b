"""How long something took, as a curve: a share of all for each bin of equal ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.pipeline.audit.percentiles import PER_DOUBLING, Percentiles, edge
from hbus_console.ui.formats import duration

#: The picture's own measures; the browser stretches it.
WIDTH, HEIGHT, _LEFT, _BOTTOM, _TOP = 480, 150, 36, 20, 8
#: Bins drawn as one point, and how many names stand under the axis at most.
_TOGETHER, _NAMES = PER_DOUBLING // 2, 7


@dataclass(frozen=True, slots=True)
class Mark:
    """A name at a place."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Curve:
    line: str
    area: str
    #: Names under the axis, and beside it.
    below: Sequence[Mark]
    beside: Sequence[Mark]
    #: Where 99 of 100 are.
    p99: Mark


def curve_of(found: Percentiles) -> Curve | None:
    """``None`` where nothing was timed."""
    if not found.count or found.p99 is None:
        return None
    grouped: dict[int, int] = {}
    for number, count in found.bins.items():
        place = -(-number // _TOGETHER)
        grouped[place] = grouped.get(place, 0) + count
    first, last = max(0, min(grouped) - 1), max(grouped) + 1
    top = _round_up(max(grouped.values()) / found.count)
    width, height = WIDTH - _LEFT, HEIGHT - _BOTTOM - _TOP

    def x(place: float) -> float:
        return round(_LEFT + (place - first) / (last - first) * width, 1)

    def y(share: float) -> float:
        return round(_TOP + (1 - share / top) * height, 1)

    points = [f"{x(place)} {y(grouped.get(place, 0) / found.count)}" for place in range(first, last + 1)]
    line = "M" + "L".join(points)
    base = y(0)
    step = max(1, -(-(last - first) // (_NAMES - 1)))
    names = [Mark(x(place), HEIGHT - 5, _named(place)) for place in range(first, last + 1, step)]
    beside = [Mark(_LEFT - 6, y(top * part / 2) + 4, f"{100 * top * part / 2:g} %") for part in range(3)]
    p99 = Mark(min(max(x(_place(found.p99)), _LEFT), WIDTH), _TOP, duration(found.p99 * 1000))
    return Curve(line, f"{line}L{x(last)} {base}L{x(first)} {base}Z", names, beside, p99)


def _named(place: int) -> str:
    return duration(round(edge(place * _TOGETHER) * 1000)) if place else "0 ms"


def _place(ms: float) -> float:
    """Where it lies between the bins that are drawn."""
    number = 0
    while edge(number) < ms:
        number += 1
    return number / _TOGETHER


def _round_up(share: float) -> float:
    """The next of 1, 2, 4, 10, 20, 40 and 100 percent."""
    return next((each / 100 for each in (1, 2, 4, 10, 20, 40) if share * 100 <= each), 1.0)
