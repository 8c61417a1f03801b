"""A job may say sizes and switches; what names code, a place or a master is refused."""

from __future__ import annotations

import re

import pytest

from engine.core.errors import BadInput
from engine.cron.work.spark.conf import ALLOWED, check_conf, check_lines
from hbus_console.state import ROOT


def test_sizes_and_switches_are_taken() -> None:
    check_conf(
        {"spark.sql.shuffle.partitions": "8", "spark.executor.memory": "2g", "spark.app.name": "the night's close"}
    )


@pytest.mark.parametrize(
    "name",
    [
        "spark.master", "spark.remote", "spark.submit.deployMode", "spark.submit.pyFiles", "spark.jars",
        "spark.jars.packages", "spark.jars.repositories", "spark.driver.extraJavaOptions",
        "spark.driver.defaultJavaOptions", "spark.executor.extraJavaOptions", "spark.driver.extraClassPath",
        "spark.executor.extraLibraryPath", "spark.driver.host", "spark.pyspark.python", "spark.pyspark.driver.python",
        "spark.plugins", "spark.files", "spark.archives", "spark.yarn.dist.files", "spark.executorEnv.PYTHONPATH",
        "spark.extraListeners", "spark.sql.extensions", "spark.sql.catalog.x", "spark.sql.hive.metastore.jars",
        "spark.sql.warehouse.dir", "spark.local.dir", "spark.eventLog.dir", "spark.serializer",
        "spark.shuffle.manager", "spark.ui.filters", "spark.kubernetes.container.image", "spark.hadoop.fs.x.impl",
        "spark.io.compression.codec", "spark.python.daemon.module", "spark.python.worker.module",
        "spark.SQL.shuffle.partitions", "spark.sql.shuffle.partitions=8 --conf spark.master", "spark.", "SPARK_HOME",
        "--master", "",
    ],
)  # fmt: skip
def test_what_chooses_code_a_place_or_a_master_is_refused(name: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_conf({"spark.task.cpus": "1", name: "x"})
    assert (refused.value.field, bool(refused.value.remedy)) == ("options", True)


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\0b", "\x1b[2J"])
def test_what_would_not_arrive_as_it_is_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        check_conf({"spark.app.name": text})
    with pytest.raises(BadInput):
        check_lines("args", ["a", text])


def test_the_document_lists_just_these() -> None:
    text = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8").partition("\n## Spark\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(spark\.[\w.]+)`", text)) == ALLOWED
