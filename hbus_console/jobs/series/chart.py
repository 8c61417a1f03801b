"""The data of the charts of a job's history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.resolution import Resolution
from hbus_console.jobs.series.reading import points, rolled_up_ms
from hbus_console.jobs.series.rows import JobSeriesPoint
from hbus_console.ui.series_lines import SeriesLine, Value, chart_named, drawn
from hbus_console.ui.spans import resolution_for, steps_of
from hbus_console.ui.timerange import TimeRange


def _failed_share(point: JobSeriesPoint) -> Value:
    bad = point.failed + point.lost + point.abandoned
    ended = point.done + bad
    return round(100 * bad / ended, 3) if ended else None


_LINES: Mapping[str, tuple[str, tuple[SeriesLine[JobSeriesPoint], ...]]] = {
    "runs": (
        "",
        (
            SeriesLine("done", "ok", lambda point: point.done, 0, area=True),
            SeriesLine("failed", "bad", lambda point: point.failed + point.lost + point.abandoned, 0),
            SeriesLine("skipped", "warn", lambda point: point.skipped, 0, quiet=True),
            SeriesLine("tried again", "accent", lambda point: point.retried, 0, quiet=True),
        ),
    ),
    "failures": ("%", (SeriesLine("runs that failed", "bad", _failed_share),)),
    "duration": (
        "ms",
        (
            SeriesLine("longest", "neutral", lambda point: point.longest_ms, quiet=True),
            SeriesLine("99 of 100 within", "warn", lambda point: point.p99_ms),
            SeriesLine("half of them within", "accent", lambda point: point.p50_ms),
        ),
    ),
    "lateness": (
        "ms",
        (
            SeriesLine("longest", "neutral", lambda point: point.late_longest_ms, quiet=True),
            SeriesLine("99 of 100 within", "warn", lambda point: point.late_p99_ms),
            SeriesLine("half of them within", "accent", lambda point: point.late_p50_ms),
        ),
    ),
}


def resolution_of(chosen: TimeRange, now_ms: int) -> Resolution:
    """By what a page of that range shows series."""
    return resolution_for(chosen.start_ms // 1000, chosen.end_ms // 1000, now_ms // 1000)


def job_series_chart(job: str, chosen: TimeRange, what: str, now_ms: int) -> dict[str, Any]:
    """What charts.js draws. The span that goes on is left out, and so is what was not rolled up so far. The caller has
    checked that whoever asks may see the job. Raises ``BadInput`` for a chart that there is not."""
    unit, lines = chart_named(_LINES, what)
    resolution = resolution_of(chosen, now_ms)
    upto_s = min(chosen.end_ms, rolled_up_ms()) // 1000 // resolution.seconds * resolution.seconds
    steps = steps_of(chosen.start_ms // 1000, upto_s, resolution)
    found = {point.at: point for point in points(job, resolution, steps.start, steps.stop)}
    return drawn(lines, steps, found, unit)
