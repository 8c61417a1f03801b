"""What moves: ``job-series``, with each roll-up of runs."""

from __future__ import annotations

from hbus_console.jobs.series.reading import rolled_up_ms
from hbus_console.ui.live import LiveCells
from hbus_console.ui.polling import once_a_poll


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """The same for everybody: when it was, which says of no job that it ran."""
    return LiveCells(marks={"job-series": once_a_poll(rolled_up_ms)})
