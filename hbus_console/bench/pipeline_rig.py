"""The rig of the pipeline's bench: a lake and a topic of the run's own, and what measures them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from engine.core.errors import BadInput, ConfigurationError
from engine.cron.work.spark.installed import find_spark
from engine.cron.work.spark.shared_classes import SharedClasses
from hbus_console.bench.pipeline_session import SparkSessionProcess
from hbus_console.bench.processes import Child
from hbus_console.bench.rig import conditions_of
from hbus_console.supervisor.standalone import StandaloneStore

#: The fewest events that hold all faults, and the most that a topic is filled with: the store has them in memory.
FEWEST, MOST_IN_TOPIC = 2_000, 1_000_000
PREFIX = "bench"
#: How long making Spark's shared classes may take, seconds.
_MAKES_WITHIN_S = 3_600.0


class PipelineRig:
    """One run: its folder and store, and its size. Close it."""

    def __init__(self, folder: Path, store: StandaloneStore, *, events: int, samples: int) -> None:
        if events < FEWEST:
            raise BadInput(f"{events:,} events hold no faults.", remedy=f"{FEWEST:,} do.", field="--events")
        self.folder = folder
        self.store = store
        self.events = events
        self.samples = samples
        self.conditions = f"{samples} runs, {conditions_of(store.url)}, load {os.getloadavg()[0]:.1f} at the start"
        self._sessions: dict[int, SparkSessionProcess] = {}
        #: Up to which message the lake has come, by commits that were added.
        self._reached: dict[Path, int] = {}

    @cached_property
    def lake(self) -> Path:
        """With all events. Made when first asked for."""
        return self.lake_of(self.events)

    def lake_of(self, events: int) -> Path:
        """A new one."""
        root = Path(tempfile.mkdtemp(prefix="lake-", dir=self.folder))
        did("hbus_console.bench.pipeline_lake", root=root, events=events)
        self._reached[root] = events
        return root

    @property
    def added(self) -> int:
        """How many messages one commit more has."""
        return max(100, self.events // 100)

    def add_commit(self) -> None:
        """One more, of messages that follow."""
        low, number = self._reached[self.lake], self.added
        did(
            "hbus_console.bench.pipeline_lake",
            **{"root": self.lake, "events": self.events, "from": low, "number": number},
        )
        self._reached[self.lake] = low + number

    def audited(self, root: Path, events: int, *, by: str = "pipeline_audit", cores: int = 2) -> dict[str, Any]:
        """What one audit, by a process of its own, took and found."""
        return did(f"hbus_console.bench.{by}", root=root, events=events, cores=cores)

    @cached_property
    def filled(self) -> int:
        """How many messages the topic has: filled from the lake when first asked."""
        count = min(self.events // 4, MOST_IN_TOPIC)
        return int(self.of_topic("fill", count=count)["rows"])

    def of_topic(self, do: str, *, program: str = "pipeline_topic", **more: Any) -> dict[str, Any]:
        """What a process of its own did with the topic, or the lake."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            task = {"do": do, "url": self.store.url, "prefix": PREFIX, "root": self.lake, "folder": folder}
            return did(f"hbus_console.bench.{program}", **task, **more)

    def session(self, cores: int = 2) -> SparkSessionProcess:
        """A warm session of Spark. Raises ``ConfigurationError`` where Spark is not installed."""
        if cores not in self._sessions:
            task = {"url": self.store.url, "prefix": PREFIX, "root": str(self.lake), "cores": cores}
            self._sessions[cores] = SparkSessionProcess(task, Path(tempfile.mkdtemp(dir=self.folder)))
        return self._sessions[cores]

    @cached_property
    def shared_classes(self) -> list[str]:
        """What Java is told to take Spark's shared classes by. Made when first asked for. Raises ``ConfigurationError``
        where Spark is not installed, or cannot share them."""
        spark, classes = find_spark(), SharedClasses(self.folder / "classes")
        if not classes.options(spark):
            classes.make(spark, self.folder / "scratch", _MAKES_WITHIN_S)
        if not (options := classes.options(spark)):
            raise ConfigurationError("Spark's classes cannot be shared.", remedy="The log says why.", field="pyspark")
        return options

    def close(self) -> None:
        """End what was started."""
        try:
            for session in self._sessions.values():
                session.close()
        finally:
            self.store.kill()


@contextmanager
def measured(*, events: int, samples: int) -> Iterator[PipelineRig]:
    """A rig with a store of its own, for as long as the block lasts. Raises ``BadInput`` for too few events."""
    with tempfile.TemporaryDirectory(prefix="hbus-bench-") as name:
        store = StandaloneStore(Path(name) / "store").start()
        try:
            rig = PipelineRig(Path(name), store, events=events, samples=samples)
        except BadInput:
            store.kill()
            raise
        try:
            yield rig
        finally:
            rig.close()


def forget_sides(root: Path) -> None:
    """Of a lake: as if it was never audited."""
    shutil.rmtree(root / "sides", ignore_errors=True)


def did(program: str, **task: Any) -> dict[str, Any]:
    """What a process of its own reports."""
    child = Child(program, {name: str(value) if isinstance(value, Path) else value for name, value in task.items()})
    child.go()
    return child.result()
