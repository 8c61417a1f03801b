"""The data of the charts of a topic's history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.resolution import Resolution
from hbus_console.pipelines.models import SeriesPoint
from hbus_console.pipelines.series import points, rolled_upto_s
from hbus_console.ui.series_lines import SeriesLine, Value, chart_named, drawn
from hbus_console.ui.spans import resolution_for, steps_of
from hbus_console.ui.timerange import TimeRange


def _failed_share(point: SeriesPoint) -> Value:
    tried = point.settled + point.retried + point.dead
    return round(100 * (point.retried + point.dead) / tried, 3) if tried else None


_LINES: Mapping[str, tuple[str, tuple[SeriesLine[SeriesPoint], ...]]] = {
    "messages": (
        "",
        (
            SeriesLine("stored", "accent", lambda point: point.stored, 0, area=True),
            SeriesLine("settled", "ok", lambda point: point.settled, 0),
            SeriesLine("failed", "warn", lambda point: point.retried, 0, quiet=True),
            SeriesLine("dead", "bad", lambda point: point.dead, 0, quiet=True),
        ),
    ),
    "failures": ("%", (SeriesLine("attempts that failed", "bad", _failed_share),)),
    "latency": (
        "ms",
        (
            SeriesLine("99 of 100 within", "warn", lambda point: point.p99_ms),
            SeriesLine("half of them within", "accent", lambda point: point.p50_ms),
        ),
    ),
    "lateness": (
        "ms",
        (
            SeriesLine("99 of 100 within", "warn", lambda point: point.late_p99_ms),
            SeriesLine("half of them within", "accent", lambda point: point.late_p50_ms),
        ),
    ),
}


def resolution_of(chosen: TimeRange, now_ms: int) -> Resolution:
    """By what a page of that range shows series."""
    return resolution_for(chosen.start_ms // 1000, chosen.end_ms // 1000, now_ms // 1000)


def series_chart(topic: str, subscription: str, chosen: TimeRange, what: str, now_ms: int) -> dict[str, Any]:
    """What charts.js draws: what the endpoint tells of the time, and zeros where nothing happened. What was not rolled
    up so far is left out. The caller has checked that whoever asks may see the topic. Raises :class:`BadInput` for a
    chart that there is not."""
    unit, lines = chart_named(_LINES, what)
    resolution = resolution_of(chosen, now_ms)
    # What the series had come to, and no further: of what they do not tell so far nothing is drawn, and no zero.
    upto_s = min(chosen.end_ms // 1000, rolled_upto_s(topic, resolution))
    steps = steps_of(chosen.start_ms // 1000, upto_s, resolution)
    found = {point.at: point for point in points(topic, subscription, resolution, steps.start, steps.stop)}
    shown = [line for line in lines if not (subscription and line.name == "stored")]
    return drawn(shown, steps, found, unit)
