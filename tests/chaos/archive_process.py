"""Archives one topic into a lake and compacts it, run after run, until it is ended; by itself, or with a Spark.

    python -m tests.chaos.archive_process <url> <prefix> <topic> <lake> plain|spark <folder for Spark>

Prints a line after each run.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from engine.bus import BusConfig
from engine.core.errors import Unavailable
from engine.cron.work.spark.installed import find_spark
from engine.cron.work.spark.submit import environment
from engine.pipeline.archive import rounds
from engine.pipeline.archive.archiving import Archiver, Execute
from engine.pipeline.archive.tasks import in_this_process, run_task
from engine.pipeline.lake.compaction import compact
from engine.pipeline.lake.errors import Superseded
from engine.pipeline.lake.lake import Lake
from engine.pipeline.on_spark import on_spark

#: So small that a run has several rounds, and a kill falls into each part of one.
TASK = 500


def spark_of(folder: Path) -> Execute:
    folder.mkdir(parents=True)
    os.environ |= environment(find_spark(), "local[2,4]", folder)
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return on_spark(session, run_task)


def main(words: Sequence[str]) -> None:
    url, prefix, topic, lake, how, folder = words
    logging.disable()
    rounds.TASK = TASK
    execute: Execute = in_this_process
    wrapped: tuple[type[Exception], ...] = ()
    if how == "spark":
        execute = spark_of(Path(folder))
        from py4j.protocol import Py4JJavaError

        # What Spark makes of an error that its tasks raised four times.
        wrapped = (Py4JJavaError,)
    archiver = Archiver(Lake(Path(lake)), BusConfig("redis_stream", url, prefix), execute, cores=2, depth=2)
    while True:
        try:
            outcome = archiver.run([topic])
            compact(archiver.lake)
            archiver.lake.sweep()
            print(f"archived {sum(outcome.messages.values())}", flush=True)
        except (Unavailable, Superseded, *wrapped) as error:
            print(f"failed {type(error).__name__}", flush=True)
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1:])
