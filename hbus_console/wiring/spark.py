"""Spark as it is installed here, and one of this process's own as the settings say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings

from engine.core.errors import ConfigurationError
from engine.cron.work.spark.installed import InstalledSpark, find_spark
from engine.cron.work.spark.scratch import scratch_folder
from engine.cron.work.spark.shared_classes import SharedClasses
from engine.cron.work.spark.submit import DEFAULTS, environment, has_executors
from engine.cron.work.spark.travelling import travelling_package
from hbus_console.spark_fetch import progress
from hbus_console.state import state_dir


class SparkBeingFetched(ConfigurationError):
    """Spark is not there yet, and will be."""


def installed_spark() -> InstalledSpark:
    """What runs applications, looked for anew each time.

    Raises ``ConfigurationError`` where there is none, and says how far its fetch is, or in pip's words why that failed:
    for who may have programs run.
    """
    fetch = progress.read(settings.STATE)
    if fetch is not None and fetch.replacing:
        raise _being_fetched(fetch)
    try:
        return find_spark()
    except ConfigurationError as error:
        if fetch is not None and fetch.goes_on:
            raise _being_fetched(fetch) from error
        if fetch is not None and fetch.said:
            what = f"{error.what} Fetching it failed: {fetch.said.rstrip('.')}."
            raise ConfigurationError(what, remedy=error.remedy, field=error.field) from error
        raise


def shared_classes() -> SharedClasses:
    """Those of this installation, for whatever starts Spark."""
    return SharedClasses(Path(settings.STATE) / "spark-classes")


def spark_standing() -> str:
    """For everybody: how far its fetch is, or that Spark is missing; empty where there is nothing to say of it."""
    if (fetch := progress.read(settings.STATE)) is not None:
        return fetch.words
    try:
        find_spark()
    except ConfigurationError as error:
        return f"{error.what} {error.remedy}"
    return ""


def _being_fetched(fetch: progress.Progress) -> SparkBeingFetched:
    return SparkBeingFetched(
        fetch.words, remedy="Try again once it is there; the cluster page tells how far it is.", field="pyspark"
    )


@contextmanager
def spark_session(name: str) -> Iterator[Any]:
    """A session at ``HBUS_SPARK_MASTER``, ended with the block.

    Raises ``ConfigurationError`` where Spark is not installed.
    """
    spark, master = installed_spark(), settings.HBUS_SPARK_MASTER
    parent = state_dir() / "spark"
    with (
        scratch_folder(parent, "session") as folder,
        _environment(environment(spark, master, folder, shared_classes().options(spark))),
    ):
        # Installed by `make spark` alone, and it reads the environment when it is imported.
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName(name).master(master)
        for setting, value in DEFAULTS.items():
            builder = builder.config(setting, value)
        session = builder.getOrCreate()
        try:
            if has_executors(master):
                session.sparkContext.addPyFile(str(travelling_package(parent, folder)))
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
