"""A session of Spark in a process of its own, asked for one thing after the other while it is warm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.cron.work.spark.installed import find_spark
from hbus_console.bench.processes import Child


class SparkSessionProcess:
    """The other end is :mod:`hbus_console.bench.pipeline_spark`. Close it."""

    def __init__(self, task: dict[str, Any], folder: Path) -> None:
        """Raises ``ConfigurationError`` where Spark is not installed."""
        find_spark()
        self._child = Child("hbus_console.bench.pipeline_spark", {**task, "folder": str(folder)})
        self._warm: set[str] = set()

    def did(self, do: str, **more: Any) -> dict[str, Any]:
        """Of one thing: ``rows``, and ``took_s``. The first of a kind is done twice, and the second told."""
        if do not in self._warm:
            self._ask(do, more)
            self._warm.add(do)
        return self._ask(do, more)

    def close(self) -> None:
        """End it; nothing where it has died."""
        if not self._child.ended:
            self._child.tell("end")
            self._child.result()

    def _ask(self, do: str, more: dict[str, Any]) -> dict[str, Any]:
        self._child.tell(json.dumps({"do": do, **more}))
        found: dict[str, Any] = json.loads(self._child.expect("did"))
        return found
