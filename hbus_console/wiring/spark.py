"""A Spark of this process's own, as the settings say."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings

from engine.cron.work.spark.installed import find_spark
from engine.cron.work.spark.submit import DEFAULTS, environment
from hbus_console.state import state_dir


@contextmanager
def spark_session(name: str) -> Iterator[Any]:
    """A session at ``HBUS_SPARK_MASTER``, ended with the block.

    Raises ``ConfigurationError`` where Spark is not installed.
    """
    spark = find_spark()
    parent = state_dir() / "spark"
    parent.mkdir(mode=0o700, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="session-", dir=parent) as folder,
        _environment(environment(spark, settings.HBUS_SPARK_MASTER, Path(folder))),
    ):
        # Installed by `make spark` alone, and it reads the environment when it is imported.
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName(name).master(settings.HBUS_SPARK_MASTER)
        for setting, value in DEFAULTS.items():
            builder = builder.config(setting, value)
        session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def _environment(more: dict[str, str]) -> Iterator[None]:
    """This process's own for the block: Spark goes by it, and what comes after must not go by a folder that is gone."""
    before = dict(os.environ)
    os.environ |= more
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ |= before
