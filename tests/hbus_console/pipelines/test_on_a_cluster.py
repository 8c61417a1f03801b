"""A session of Spark that the console makes at a cluster, whose machines have no hbus."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.core.errors import ConfigurationError
from engine.cron.work.spark.installed import find_spark
from hbus_console.state import ROOT
from tests.engine.cron.work.spark.cluster import StandaloneCluster

#: In a process of its own: there is one context in each, and tests before this one may have made it.
_PROGRAM = """
import os, sys, django
django.setup()
from django.conf import settings
from engine.core.clock import to_rfc3339
from engine.cron.work.spark.scratch import remove_left_behind
from engine.pipeline.on_spark import on_spark
from hbus_console.state import state_dir
from hbus_console.wiring.spark import shared_classes, spark_session
settings.HBUS_SPARK_MASTER = sys.argv[1]
with spark_session("a test") as session:
    # It travels as a name, which its executor imports.
    print(session.sparkContext.master, on_spark(session, to_rfc3339)([0]))
    # The role jobs does so every few seconds.
    remove_left_behind(state_dir() / "spark")
    print("works in its folder:", os.path.isdir(os.environ["TMPDIR"]))
print("left behind:", [each.name for each in (state_dir() / "spark").iterdir() if each.is_dir()])
print("asked for shared classes:", shared_classes().wanted)
"""


@pytest.mark.long
def test_a_session_at_a_cluster_brings_hbus_to_its_executors(tmp_path: Path) -> None:
    try:
        spark = find_spark()
    except ConfigurationError as error:
        pytest.skip(f"{error.what} {error.remedy}")
    cluster = StandaloneCluster(spark, tmp_path)
    try:
        # The driver listens for its executors.
        around = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings", "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, cluster.master],
            cwd=ROOT, env=around, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.stdout.splitlines()[-4:] == [
            f"{cluster.master} ['1970-01-01T00:00:00.000Z']",
            "works in its folder: True",
            "left behind: []",
            "asked for shared classes: True",
        ], done.stderr[-3000:]
    finally:
        cluster.close()
