"""The form of every figure: ours beside its peer, from interleaved runs, with the conditions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

#: Units of which less is better: of a row in one of them the goal is the most that is asked for, of others the least.
TIMES = frozenset({"ns", "µs", "ms", "s"})


@dataclass(frozen=True)
class Row:
    """One line of ``manage.py bench AREA --json``; the fields are those of the design, section 6."""

    area: str
    what: str
    unit: str
    ours: float | None
    peer: str
    theirs: float | None
    ratio: float | None
    goal: float | None
    holds: bool | None
    samples: int
    conditions: str
    p50: float | None = None
    p99: float | None = None

    def as_json(self) -> str:
        """One line; latencies carry ``p50`` and ``p99``, other rows leave them out."""
        fields = {name: value for name, value in asdict(self).items() if not (name in ("p50", "p99") and value is None)}
        return json.dumps(fields)


def compare(
    area: str,
    what: str,
    unit: str,
    *,
    ours: Callable[[], float],
    peer: str,
    theirs: Callable[[], float],
    samples: int,
    conditions: str,
    goal: float | None = None,
) -> Row:
    """Run both in turn ``samples`` times and compare the medians.

    ``goal`` is the least ratio asked for, of :data:`TIMES` the greatest.
    """
    pairs = [(ours(), theirs()) for _ in range(samples)]
    mine, other = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    ratio = mine / other
    holds = None if goal is None else (ratio <= goal if unit in TIMES else ratio >= goal)
    return Row(area, what, unit, mine, peer, other, ratio, goal, holds, samples, conditions)


def missing(area: str, what: str, unit: str, *, ours: float | None, peer: str, why: str, **rest: Any) -> Row:
    """A row whose peer (or, without ``ours``, both) could not be had: it says so instead of being left out."""
    return Row(area, what, unit, ours, f"{peer}: {why}", None, None, rest.get("goal"), None, 1, rest["conditions"])


def table(rows: Sequence[Row]) -> str:
    """The rows for people."""
    head = ("what", "ours", "peer", "theirs", "ratio", "goal", "holds", "runs")
    lines: list[Sequence[str]] = [head]
    lines.extend(
        (
            row.what,
            figure(row.ours, row.unit) + _latency(row),
            row.peer,
            figure(row.theirs, row.unit),
            "-" if row.ratio is None else f"{row.ratio:.2f}",
            _goal(row),
            "-" if row.holds is None else ("yes" if row.holds else "NO"),
            str(row.samples),
        )
        for row in rows
    )
    return columns(lines)


def columns(lines: Sequence[Sequence[str]]) -> str:
    """Cells under each other."""
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def figure(value: float | None, unit: str) -> str:
    """A value for people."""
    if value is None:
        return "-"
    return f"{value:,.2f} {unit}" if value < 100 else f"{value:,.0f} {unit}"


def _goal(row: Row) -> str:
    if row.goal is None:
        return "-"
    return f"{'≤ ' if row.unit in TIMES else ''}{row.goal:g}"


def _latency(row: Row) -> str:
    return "" if row.p50 is None else f" (p50 {row.p50:.2f}, p99 {row.p99 or 0:.2f})"
