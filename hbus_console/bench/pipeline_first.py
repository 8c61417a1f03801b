"""A measured process: a session of Spark, to its first result."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from engine.cron.work.spark.installed import find_spark
from engine.cron.work.spark.submit import DEFAULTS, environment
from hbus_console.bench.processes import report, wait_for_go

MASTER, ROWS = "local[2]", 1_000


def main(task: dict[str, Any]) -> None:
    """``task``: a folder of one's own; what Java is told where the session is ours, or null."""
    found, folder, options = find_spark(), Path(task["folder"]), task["java_options"]
    wait_for_go()
    began = time.perf_counter()
    if options is not None:
        os.environ |= environment(found, MASTER, folder, options)
    else:
        # Without a Java it does not start.
        os.environ["JAVA_HOME"] = str(found.java.home_for_spark(folder))
    # It reads the environment when it is imported.
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(MASTER)
    for setting, value in DEFAULTS.items() if options is not None else ():
        builder = builder.config(setting, value)
    session = builder.getOrCreate()
    counted = session.range(ROWS).count()
    took_s = time.perf_counter() - began
    session.stop()
    report(took_s=took_s, rows=counted)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
