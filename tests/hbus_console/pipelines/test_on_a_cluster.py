"""A session of Spark that the console makes at a cluster, whose machines have no hbus."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings

from engine.core.clock import to_rfc3339
from engine.core.errors import ConfigurationError
from engine.cron.work.spark.installed import find_spark
from engine.pipeline.on_spark import on_spark
from hbus_console.wiring.spark import spark_session
from tests.engine.cron.work.spark.cluster import StandaloneCluster


@pytest.mark.long
def test_a_session_at_a_cluster_brings_hbus_to_its_executors(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        spark = find_spark()
    except ConfigurationError as error:
        pytest.skip(f"{error.what} {error.remedy}")
    # The driver listens for its executors.
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    cluster = StandaloneCluster(spark, tmp_path)
    try:
        settings.HBUS_SPARK_MASTER = cluster.master
        with spark_session("a test") as session:
            assert session.sparkContext.master == cluster.master
            # It travels as a name, which its executor imports.
            assert on_spark(session, to_rfc3339)([0]) == ["1970-01-01T00:00:00.000Z"]
    finally:
        cluster.close()
