"""Spark as it is installed beside this Python."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from engine.core.errors import ConfigurationError
from engine.cron.work.spark.java import Java, find_java
from engine.cron.work.spark.whole import is_whole


@dataclass(frozen=True, slots=True)
class InstalledSpark:
    """What runs applications."""

    #: SPARK_HOME: the folder of the package.
    home: Path
    java: Java

    @property
    def submit(self) -> Path:
        """The program that takes applications."""
        return self.home / "bin" / "spark-submit"


def find_spark(environment: Mapping[str, str] | None = None) -> InstalledSpark:
    """Looked for anew each time, which takes no process and no import. Raises ``ConfigurationError``."""
    package = find_spec("pyspark")
    folders = package.submodule_search_locations if package is not None else None
    if not folders or not is_whole(Path(folders[0])):
        raise ConfigurationError(
            "Spark is not installed here: this Python has no pyspark.",
            remedy="Whoever runs this installation installs it by `make spark`.",
            field="pyspark",
        )
    return InstalledSpark(Path(folders[0]), find_java(os.environ if environment is None else environment))
