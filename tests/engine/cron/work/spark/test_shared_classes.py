"""The classes of Spark are read from its jars once: a start asks, one process makes, and later starts take them."""

from __future__ import annotations

import logging
import os
import stat
import threading
from pathlib import Path

import pytest

from engine.cron.work.spark.installed import InstalledSpark, find_spark
from engine.cron.work.spark.java import Java
from engine.cron.work.spark.shared_classes import SharedClasses
from engine.cron.work.spark.submit import Submission, run_application
from tests.engine.cron.work.conftest import Given

#: A Spark whose start writes what Java would, or as much of it as is told.
_SUBMIT = """#!/bin/sh
echo started >> "$SPARK_HOME/starts"
for option in $SPARK_SUBMIT_OPTS; do
  case "$option" in -XX:ArchiveClassesAtExit=*|-XX:AOTCacheOutput=*) made="${option#*=}" ;; esac
done
"""
_MAKES = 'echo classes > "$made"\n'
_HELD = 'while [ ! -e "$SPARK_HOME/go" ]; do sleep 0.02; done\n' + _MAKES


def installed(folder: Path, does: str = _MAKES, version: str = "17.0.15") -> InstalledSpark:
    java, spark = folder / "java", folder / "spark"
    for each in (java / "bin", spark / "bin", spark / "jars"):
        each.mkdir(parents=True)
    (java / "release").write_text(f'JAVA_VERSION="{version}"\n')
    (spark / "jars" / "spark-core.jar").write_text("one")
    (spark / "bin" / "spark-submit").write_text(_SUBMIT + does)
    (spark / "bin" / "spark-submit").chmod(0o755)
    return InstalledSpark(spark, Java(java, version, True))


def starts(spark: InstalledSpark) -> int:
    told = spark.home / "starts"
    return len(told.read_text().splitlines()) if told.exists() else 0


def make(classes: SharedClasses, spark: InstalledSpark, tmp_path: Path) -> None:
    classes.make(spark, tmp_path / "scratch", 900)


@pytest.mark.parametrize(("version", "option"), [("17.0.15", "SharedArchiveFile"), ("25.0.2", "AOTCache")])
def test_the_first_start_asks_and_later_ones_take_what_was_made(tmp_path: Path, version: str, option: str) -> None:
    folder, spark = tmp_path / "state" / "classes", installed(tmp_path, version=version)
    classes = SharedClasses(folder)
    assert not classes.wanted
    assert classes.options(spark) == classes.options(spark) == []
    assert classes.wanted
    make(classes, spark, tmp_path)
    (made,) = folder.iterdir()
    assert not classes.wanted
    assert classes.options(spark) == [f"-XX:{option}={made}"]
    assert not classes.wanted
    assert (made.read_text(), made.name.split(".")[1]) == ("classes\n", "8")
    # What lies there is run as code.
    assert [stat.S_IMODE(os.stat(path).st_mode) for path in (folder, made)] == [0o700, 0o600]
    assert list((tmp_path / "scratch").iterdir()) == []


def test_nothing_is_made_that_nobody_asked_for(tmp_path: Path) -> None:
    spark, classes = installed(tmp_path), SharedClasses(tmp_path / "classes")
    classes.options(spark)
    make(classes, spark, tmp_path)
    make(classes, spark, tmp_path)
    assert starts(spark) == 1


def _another_jar(spark: InstalledSpark) -> InstalledSpark:
    (spark.home / "jars" / "spark-core.jar").write_text("other")
    return spark


def _one_jar_more(spark: InstalledSpark) -> InstalledSpark:
    (spark.home / "jars" / "more.jar").write_text("")
    return spark


def _another_java(spark: InstalledSpark) -> InstalledSpark:
    return InstalledSpark(spark.home, Java(spark.java.home, "17.0.16", True))


def _the_same_version_built_anew(spark: InstalledSpark) -> InstalledSpark:
    (spark.java.home / "release").write_text('JAVA_VERSION="17.0.15"\nSOURCE="other"\n')
    return spark


@pytest.mark.parametrize("change", [_another_jar, _one_jar_more, _another_java, _the_same_version_built_anew])
def test_what_is_void_is_not_taken_and_goes_when_the_next_is_made(tmp_path: Path, change: object) -> None:
    assert callable(change)
    folder, spark = tmp_path / "classes", installed(tmp_path)
    classes = SharedClasses(folder)
    classes.options(spark)
    make(classes, spark, tmp_path)
    (old,) = folder.iterdir()
    spark = change(spark)
    assert classes.options(spark) == []
    make(classes, spark, tmp_path)
    (new,) = folder.iterdir()
    assert new != old
    assert classes.options(spark) == [f"-XX:SharedArchiveFile={new}"]


def test_other_places_of_classes_are_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark, classes = installed(tmp_path), SharedClasses(tmp_path / "classes")
    classes.options(spark)
    make(classes, spark, tmp_path)
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert classes.options(spark) == []


def test_of_two_at_once_one_makes_and_nobody_takes_half_of_it(tmp_path: Path) -> None:
    spark, classes = installed(tmp_path, _HELD), SharedClasses(tmp_path / "classes")
    classes.options(spark)
    first = threading.Thread(target=make, args=(classes, spark, tmp_path))
    first.start()
    try:
        while not starts(spark):
            first.join(0.02)
            assert first.is_alive()
        make(SharedClasses(tmp_path / "classes"), spark, tmp_path)
        assert classes.options(spark) == []
    finally:
        (spark.home / "go").touch()
        first.join()
    assert starts(spark) == 1
    assert classes.options(spark) != []
    assert not classes.wanted


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("exit 3\n", "it ended with exit code 3"),
        ("echo '[1.2s][error][cds] Cannot have non-empty directory'\n", "Java made none; [1.2s][error][cds] Cannot"),
        ("sleep 600\n", "it took more than 1 s"),
    ],
)
def test_where_that_fails_the_log_says_so_once_and_starts_go_on_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, does: str, why: str
) -> None:
    spark, classes = installed(tmp_path, does), SharedClasses(tmp_path / "classes")
    for _ in range(3):
        assert classes.options(spark) == []
        classes.make(spark, tmp_path / "scratch", 1 if "sleep" in does else 60)
    (told,) = caplog.messages
    assert told.startswith("Spark's classes cannot be shared, and it starts without: ")
    assert why in told
    assert starts(spark) == 1
    assert not classes.wanted
    assert list((tmp_path / "scratch").iterdir()) == []


def test_one_that_was_cut_off_since_is_not_taken_and_is_made_anew(tmp_path: Path) -> None:
    spark, classes = installed(tmp_path), SharedClasses(tmp_path / "classes")
    classes.options(spark)
    make(classes, spark, tmp_path)
    (made,) = (tmp_path / "classes").iterdir()
    os.truncate(made, 3)
    assert classes.options(spark) == []
    make(classes, spark, tmp_path)
    assert classes.options(spark) == [f"-XX:SharedArchiveFile={made}"]


def test_a_folder_that_java_would_take_for_two_has_none(tmp_path: Path) -> None:
    classes = SharedClasses(tmp_path / "a:b")
    assert classes.options(installed(tmp_path)) == []
    assert not classes.wanted


def test_a_start_goes_on_where_nothing_can_be_asked_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "classes").write_text("not a folder")
    assert SharedClasses(tmp_path / "classes").options(installed(tmp_path)) == []
    assert [each.levelno for each in caplog.records] == [logging.WARNING]


@pytest.mark.whole
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("java", ["of the machine", "of PyPI"])
def test_the_second_start_takes_the_classes_of_the_first(
    given: Given, spark: InstalledSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: str
) -> None:
    # A folder of settings is among the places of classes, and Java shares none where one of them is a folder.
    monkeypatch.delenv("SPARK_CONF_DIR")
    spark = find_spark({"PATH": ""}) if java == "of PyPI" else spark
    application, classes = tmp_path / "counts.py", SharedClasses(tmp_path / "classes")
    application.write_text(
        "from pyspark.sql import SparkSession\nprint('counted', SparkSession.builder.getOrCreate().range(1000).count())"
    )
    classes.options(spark)
    make(classes, spark, tmp_path)
    told = tmp_path / "loaded"
    (option,) = classes.options(spark)
    context, options = given(), [option, f"-Xlog:class+load:file={told}"]
    outcome = run_application(context, spark, Submission(application), tmp_path / "scratch", java_options=options)
    log = context.log.read(last=True)
    assert outcome.done, log
    assert "counted 1000" in log
    loaded = told.read_text().splitlines()
    shared = [line for line in loaded if "source: shared objects file" in line]
    assert any(" org.apache.spark.SparkContext source: " in line for line in shared)
    read = [line for line in loaded if "source: file:" in line or "source: jrt:" in line]
    assert len(read) < len(shared) / 10
