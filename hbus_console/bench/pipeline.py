"""`manage.py bench pipeline`: topics as tables, the archive and its audit beside their peers, in one run."""

from __future__ import annotations

from collections.abc import Iterator

from hbus_console.bench import pipeline_audits, pipeline_rates, pipeline_start
from hbus_console.bench.pipeline_audits import AREA
from hbus_console.bench.pipeline_rig import PipelineRig, measured
from hbus_console.bench.rig import Measurement

__all__ = ["AREA", "measured", "measurements"]


def measurements(rig: PipelineRig, *, larger: bool = True) -> Iterator[Measurement]:
    """Every row of the area, in the order of the table; ``larger`` is the one of a lake five times as large."""
    yield from pipeline_start.measurements(rig)
    yield from pipeline_rates.measurements(rig)
    yield from pipeline_audits.measurements(rig, larger=larger)
