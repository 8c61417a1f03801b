"""hbus travels to executors, with its scripts: on a real cluster whose machines have none."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cron.work.spark import travelling
from engine.cron.work.spark.installed import InstalledSpark
from engine.cron.work.spark.submit import Submission, has_executors, run_application
from engine.cron.work.spark.travelling import ROOT, travelling_package
from tests.engine.cron.work.conftest import Given
from tests.engine.cron.work.spark.cluster import StandaloneCluster
from tests.engine.pipeline.conftest import Topic

_APPLICATION = """
import json, sys
from pyspark.sql import SparkSession
from engine.pipeline.source.datasource import register

def where(rows):
    import os, engine, rates
    yield engine.__file__, os.getcwd(), rates.RATE

source, sink = map(json.loads, sys.argv[1:])
spark = SparkSession.builder.getOrCreate()
register(spark)
rows = spark.read.format("hbus").options(**source).load().cache()
rows.drop("key_hash").write.format("hbus").options(**sink).mode("append").save()
print(json.dumps({
    "ids": sorted(row.id for row in rows.select("id").collect()),
    "where": spark.sparkContext.parallelize([1], 1).mapPartitions(where).collect()[0],
}))
"""
#: Everything of the bus that reads a script does so when it is imported, or made.
_IN_THE_ZIP = """
from importlib.resources import files
from engine.core.scripts import load_scripts
import engine.bus.transports.redis_stream.scripts as scripts
import engine.core.leases, engine.core.store.heavy_streams, engine.cron.slots.store, engine.quota.planes.redis
print(scripts.__file__, len(scripts.APPEND.text), len(load_scripts(files("engine.bus.consuming") / "lua")))
"""


@pytest.fixture
def cluster(spark: InstalledSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandaloneCluster]:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    # The driver listens for its executors.
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    found = StandaloneCluster(spark, elsewhere)
    yield found
    found.close()


@pytest.fixture
def topics(redis_url: str, prefix: str) -> Iterator[tuple[Topic, Topic]]:
    found = Topic(redis_url, prefix), Topic(redis_url, prefix, "booking.replayed")
    yield found
    for topic in found:
        topic.transport.admin.delete_topic(topic.name)
        topic.transport.close()


@pytest.mark.whole
def test_executors_that_have_no_hbus_read_and_write_topics(
    given: Given, spark: InstalledSpark, cluster: StandaloneCluster, topics: tuple[Topic, Topic], tmp_path: Path
) -> None:
    source, sink = topics
    source.publish_many(0, 50)
    application, module = tmp_path / "copies.py", tmp_path / "rates.py"
    application.write_text(_APPLICATION)
    module.write_text("RATE = 3\n")
    said = [json.dumps({**source.options, "tasks": "1"}), json.dumps({**sink.options, "writeId": "w", "order": "none"})]
    conf = {"spark.executor.memory": "512m"}
    wanted = Submission(application, conf, said, [module], cluster.master)
    context = given()
    outcome = run_application(context, spark, wanted, tmp_path / "scratch")
    told = context.log.read(last=True)
    assert outcome.done, told
    found = json.loads(next(line for line in told.splitlines() if line.startswith('{"ids"')))
    assert found["ids"] == sorted(f"m{number}" for number in range(50))
    imported, folder, rate = found["where"]
    assert Path(imported).parts[-3:] == ("engine.zip", "engine", "__init__.py")
    assert (Path(folder).is_relative_to(cluster.folder / "work"), rate) == (True, 3)
    assert sum(extent.held for extent in sink.rereads.extents(sink.name)) == 50
    assert [path.suffix for path in (tmp_path / "scratch").iterdir()] == [".zip"]


def test_what_is_in_the_zip_is_imported_from_it_with_its_scripts(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    package = travelling_package(tmp_path, tmp_path / "run")
    words = [sys.executable, "-c", _IN_THE_ZIP]
    ran = subprocess.run(
        words, cwd=tmp_path, env={"PYTHONPATH": str(package)}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    place, *lengths = ran.stdout.split()
    assert place.startswith(f"{package}/engine/")
    assert all(int(length) > 0 for length in lengths)


def test_it_holds_every_file_of_the_engine_and_nothing_compiled(tmp_path: Path) -> None:
    names = set(zipfile.ZipFile(travelling_package(tmp_path, _made(tmp_path / "run"))).namelist())
    for pattern in ("*.py", "*.lua", "py.typed"):
        lie = {path.relative_to(ROOT).as_posix() for path in (ROOT / "engine").rglob(pattern)}
        assert lie <= names, pattern
    assert not any(name.endswith(".pyc") for name in names)


def test_it_is_made_once_of_each_version_and_a_run_keeps_the_one_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [_made(tmp_path / name) for name in ("1", "2", "3")]
    first, second = (travelling_package(tmp_path, run) for run in runs[:2])
    assert first.stat().st_ino == second.stat().st_ino
    lies = first.read_bytes()
    house = _made(tmp_path / "house")
    _made(house / "engine").joinpath("__init__.py").write_text("OTHER = 1\n")
    monkeypatch.setattr(travelling, "ROOT", house)
    third = travelling_package(tmp_path, runs[2])
    assert zipfile.ZipFile(third).namelist() == ["engine/__init__.py"]
    assert first.read_bytes() == lies
    (kept,) = tmp_path.glob("*.zip")
    assert kept.stat().st_ino == third.stat().st_ino


@pytest.mark.parametrize(
    ("master", "apart"),
    [("local", False), ("local[2,4]", False), ("local-cluster[2,1,1024]", True), ("spark://m:1", True), ("yarn", True)],
)
def test_it_travels_wherever_others_than_the_driver_work(master: str, apart: bool) -> None:
    assert has_executors(master) is apart


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
