"""Which of Spark's settings a job may say: sizes and switches, and nothing that names code, a place or a master.

A list of what is allowed, for Spark takes some thousand names, and with each of its releases, sources and catalogs come
more that load a class or a file. What is not in it an application may set itself: whoever put it into its folder is
trusted with code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from engine.core.errors import BadInput

ALLOWED = frozenset(
    {
        # What it is called, and how much it tells.
        "spark.app.name",
        "spark.log.level",
        "spark.ui.enabled",
        "spark.ui.port",
        "spark.ui.showConsoleProgress",
        # How much it may take.
        "spark.cores.max",
        "spark.driver.cores",
        "spark.driver.maxResultSize",
        "spark.driver.memory",
        "spark.driver.memoryOverhead",
        "spark.dynamicAllocation.enabled",
        "spark.dynamicAllocation.executorIdleTimeout",
        "spark.dynamicAllocation.initialExecutors",
        "spark.dynamicAllocation.maxExecutors",
        "spark.dynamicAllocation.minExecutors",
        "spark.dynamicAllocation.shuffleTracking.enabled",
        "spark.executor.cores",
        "spark.executor.instances",
        "spark.executor.memory",
        "spark.executor.memoryOverhead",
        "spark.executor.pyspark.memory",
        "spark.memory.fraction",
        "spark.memory.offHeap.enabled",
        "spark.memory.offHeap.size",
        "spark.memory.storageFraction",
        "spark.python.worker.memory",
        "spark.python.worker.reuse",
        # How its tasks are cut and tried.
        "spark.default.parallelism",
        "spark.locality.wait",
        "spark.network.timeout",
        "spark.rdd.compress",
        "spark.scheduler.mode",
        "spark.shuffle.compress",
        "spark.speculation",
        "spark.task.cpus",
        "spark.task.maxFailures",
        # How its queries are.
        "spark.sql.adaptive.advisoryPartitionSizeInBytes",
        "spark.sql.adaptive.coalescePartitions.enabled",
        "spark.sql.adaptive.enabled",
        "spark.sql.adaptive.skewJoin.enabled",
        "spark.sql.ansi.enabled",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.broadcastTimeout",
        "spark.sql.caseSensitive",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        "spark.sql.execution.arrow.pyspark.enabled",
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.files.maxRecordsPerFile",
        "spark.sql.parquet.compression.codec",
        "spark.sql.parquet.mergeSchema",
        "spark.sql.session.timeZone",
        "spark.sql.shuffle.partitions",
        "spark.sql.sources.partitionOverwriteMode",
    }
)
#: What Spark's scripts lose on the way, or no program can be given.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_conf(conf: Mapping[str, str]) -> None:
    """Raises ``BadInput`` at the first name that is not in :data:`ALLOWED`, or value that is not one line."""
    for name in conf:
        if not name.startswith("spark."):
            raise BadInput(
                f"{name!r} is no setting of Spark's.", remedy="Their names begin with spark.", field="options"
            )
        if name not in ALLOWED:
            raise BadInput(
                f"{name} is not for a job to say.",
                remedy="docs/jobs.md lists what is. The master is that of HBUS_SPARK_MASTER; more may be set by the"
                " application itself.",
                field="options",
            )
    check_lines("conf", conf.values())


def check_lines(option: str, texts: Iterable[str]) -> None:
    """Raises ``BadInput`` for a text with control characters."""
    for text in texts:
        if _CONTROL.search(text):
            raise BadInput(
                f"options.{option} holds a line end or another control character in {text!r}.",
                remedy="Leave it out; what is longer goes into parameters.",
                field="options",
            )
