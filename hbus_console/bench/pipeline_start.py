"""How long a session of Spark takes from nothing to its first result, beside one that nobody has set up."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from statistics import median

from engine.core.errors import ConfigurationError
from engine.cron.work.spark.installed import InstalledSpark, find_spark
from hbus_console.bench.pipeline_audits import AREA
from hbus_console.bench.pipeline_rig import PipelineRig, did
from hbus_console.bench.rig import Measurement
from hbus_console.bench.rows import Row, missing

WHAT = "a session of Spark started, to its first result"
#: Seconds.
GOAL_S = 4.0
_PEER = "pyspark as it comes"


def measurements(rig: PipelineRig) -> Iterator[Measurement]:
    """The one row."""
    yield Measurement(WHAT, lambda: _measured(rig))


def _measured(rig: PipelineRig) -> Row:
    conditions = (
        f"{rig.conditions}; pyspark imported, a session of two cores, a thousand rows counted; files are warm, and ours"
        " finds its shared classes; the goal is of our seconds"
    )
    try:
        options = rig.shared_classes
    except ConfigurationError as error:
        return missing(AREA, WHAT, "s", ours=None, peer=_PEER, why=error.what, conditions=conditions, goal=GOAL_S)
    _read_whole(find_spark())
    pairs = [(_took_s(rig, options), _took_s(rig, None)) for _ in range(rig.samples)]
    mine, other = (median(pair[side] for pair in pairs) for side in (0, 1))
    holds = mine <= GOAL_S
    return Row(AREA, WHAT, "s", mine, _PEER, other, mine / other, GOAL_S, holds, rig.samples, conditions)


def _read_whole(spark: InstalledSpark) -> None:
    """Whatever lies in the memory of the machine is not read from its disk in what is measured."""
    for file in (spark.java.home / "lib" / "modules", *(spark.home / "jars").rglob("*.jar")):
        with contextlib.suppress(FileNotFoundError), file.open("rb") as opened:
            while opened.read(1 << 20):
                pass


def _took_s(rig: PipelineRig, options: list[str] | None) -> float:
    with tempfile.TemporaryDirectory(dir=rig.folder) as folder:
        return float(did("hbus_console.bench.pipeline_first", folder=folder, java_options=options)["took_s"])
