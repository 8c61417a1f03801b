"""The data of the charts of a topic's history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.core.errors import BadInput
from engine.pipeline.rollup.series import Resolution
from hbus_console.pipelines.models import SeriesPoint
from hbus_console.pipelines.series import archived_upto_s, points, resolution_for, steps_of
from hbus_console.ui.timerange import TimeRange

Value = float | None


@dataclass(frozen=True)
class _SeriesLine:
    name: str
    tone: str
    of: Callable[[SeriesPoint], Value]
    #: Of a span in which nothing happened.
    none: Value = None
    area: bool = False
    quiet: bool = False


def _failed_share(point: SeriesPoint) -> Value:
    tried = point.settled + point.retried + point.dead
    return round(100 * (point.retried + point.dead) / tried, 3) if tried else None


_LINES: Mapping[str, tuple[str, tuple[_SeriesLine, ...]]] = {
    "messages": (
        "",
        (
            _SeriesLine("stored", "accent", lambda point: point.stored, 0, area=True),
            _SeriesLine("settled", "ok", lambda point: point.settled, 0),
            _SeriesLine("failed", "warn", lambda point: point.retried, 0, quiet=True),
            _SeriesLine("dead", "bad", lambda point: point.dead, 0, quiet=True),
        ),
    ),
    "failures": ("%", (_SeriesLine("attempts that failed", "bad", _failed_share),)),
    "latency": (
        "ms",
        (
            _SeriesLine("99 of 100 within", "warn", lambda point: point.p99_ms),
            _SeriesLine("half of them within", "accent", lambda point: point.p50_ms),
        ),
    ),
    "lateness": (
        "ms",
        (
            _SeriesLine("99 of 100 within", "warn", lambda point: point.late_p99_ms),
            _SeriesLine("half of them within", "accent", lambda point: point.late_p50_ms),
        ),
    ),
}


def resolution_of(chosen: TimeRange, now_ms: int) -> Resolution:
    """By what a page of that range shows series."""
    return resolution_for(chosen.start_ms // 1000, chosen.end_ms // 1000, now_ms // 1000)


def series_chart(topic: str, subscription: str, chosen: TimeRange, what: str, now_ms: int) -> dict[str, Any]:
    """What charts.js draws. The span that goes on is left out, and so is what was not rolled up so far. The caller has
    checked that whoever asks may see the topic. Raises :class:`BadInput` for a chart that there is not."""
    if what not in _LINES:
        raise BadInput(f"There is no chart {what[:20]!r}.", remedy=f"Use one of {', '.join(_LINES)}.", field="what")
    resolution = resolution_of(chosen, now_ms)
    # What the archive had come to, and no further: where it has nothing so far nothing is drawn, and no zero.
    upto_s = min(chosen.end_ms // 1000, archived_upto_s(topic)) // resolution.seconds * resolution.seconds
    steps = steps_of(chosen.start_ms // 1000, upto_s, resolution)
    found = {point.at: point for point in points(topic, subscription, resolution, chosen.start_ms // 1000, upto_s)}
    unit, lines = _LINES[what]
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
            if not (subscription and line.name == "stored")
        ],
        "marks": [],
    }
