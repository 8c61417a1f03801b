"""Tasks run on Spark: retried there, on whatever machines it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Task = TypeVar("Task")
Made = TypeVar("Made")


def on_spark(spark: Any, run: Callable[[Task], Made]) -> Callable[[Sequence[Task]], list[Made]]:
    """What gives ``run`` of each task, in their order; one Spark task each.

    Tasks and what they make travel. The lake's folder, and the store where one is read, are reached from every executor
    under the same names.
    """

    def execute(tasks: Sequence[Task]) -> list[Made]:
        if not tasks:
            return []
        made: list[Made] = spark.sparkContext.parallelize(tasks, len(tasks)).map(run).collect()
        return made

    return execute
