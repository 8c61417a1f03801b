"""A measured process: a session of Spark that reads, archives and writes a topic, and reads the lake, as it is told."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

from engine.bus import BusConfig, open_transport
from engine.cron.work.spark.installed import find_spark
from engine.cron.work.spark.submit import DEFAULTS, environment
from engine.pipeline.archive.archiving import Archiver
from engine.pipeline.archive.tasks import run_task
from engine.pipeline.lake.lake import Lake
from engine.pipeline.on_spark import on_spark
from hbus_console.bench.pipeline_lake import files_of
from hbus_console.bench.pipeline_story import TOPIC
from hbus_console.bench.processes import report

COPY = "booking.replayed"


class MeasuredSpark:
    """What is measured, in one session."""

    def __init__(self, task: dict[str, Any]) -> None:
        folder, cores = Path(task["folder"]), int(task["cores"])
        master = f"local[{cores}]"
        os.environ |= environment(find_spark(), master, folder)
        # It reads the environment when it is imported.
        from pyspark.sql import SparkSession

        # It imports the same.
        from engine.pipeline.source.datasource import register

        builder = SparkSession.builder.master(master)
        for setting, value in DEFAULTS.items():
            builder = builder.config(setting, value)
        self.spark = builder.config("spark.sql.shuffle.partitions", str(cores)).getOrCreate()
        register(self.spark)
        self._folder, self._cores = folder, cores
        self._root = Path(task["root"])
        self._config = BusConfig("redis_stream", task["url"], task["prefix"])
        self._where = {"url": task["url"], "prefix": task["prefix"]}
        self._writes = count()
        self._table: Any = None

    def read(self, columns: str = "") -> int:
        """The topic as a table, into nothing."""
        options = {**self._where, "topic": TOPIC, "tasks": str(self._cores), "columns": columns}
        table = self.spark.read.format("hbus").options(**options).load()
        table.write.format("noop").mode("overwrite").save()
        return 0

    def archive(self) -> int:
        """The topic into a lake of its own."""
        with tempfile.TemporaryDirectory(dir=self._folder) as root:
            execute = on_spark(self.spark, run_task)
            done = Archiver(Lake(Path(root)), self._config, execute, cores=self._cores).run([TOPIC])
            return done.messages[TOPIC]

    def read_back(self) -> int:
        """The lake's files of messages, into nothing."""
        self.spark.read.parquet(*files_of(self._root)["messages"]).write.format("noop").mode("overwrite").save()
        return sum(file.rows for file in Lake(self._root).state().files_of(TOPIC))

    def write(self) -> int:
        """As many of the lake's messages as the topic has into another one, each key by one task."""
        options = {**self._where, "topic": COPY, "writeId": f"bench-{next(self._writes)}"}
        self._table.write.format("hbus").options(**options).mode("append").save()
        return 0

    def ready_to_write(self, rows: int) -> None:
        """The rows are in memory, and the topic is empty."""
        transport = open_transport(self._config)
        if self._table is not None:
            transport.admin.delete_topic(COPY)
        transport.admin.create_topic(COPY)
        transport.close()
        if self._table is None:
            table = self.spark.read.parquet(*files_of(self._root)["messages"]).limit(rows).drop("key_hash")
            table = table.repartition(self._cores, "partitionkey")
            self._table = table.sortWithinPartitions("partitionkey", "stored_at").cache()
            self._table.count()

    def do(self, do: str, rows: int, **more: Any) -> dict[str, Any]:
        """One thing, timed."""
        if do == "write":
            self.ready_to_write(rows)
        began = time.perf_counter()
        found = getattr(self, do)(**more)
        return {"took_s": time.perf_counter() - began, "rows": found or rows}


def main(task: dict[str, Any]) -> None:
    """``task``: url, prefix, root of the lake, cores, and a folder of one's own. Then a line of JSON for each thing."""
    measured = MeasuredSpark(task)
    print("ready", flush=True)
    while (line := sys.stdin.readline().strip()) and line != "end":
        print("did " + json.dumps(measured.do(**json.loads(line))), flush=True)
    measured.spark.stop()
    report()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
