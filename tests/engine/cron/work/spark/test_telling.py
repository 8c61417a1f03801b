"""What the driver of a real application tells of it, and that nothing about it can hinder the application."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.cron.work.spark.installed import InstalledSpark
from engine.cron.work.spark.looking import with_place
from engine.cron.work.spark.progress import SparkJobs, SparkProgress, SparkTasks
from engine.cron.work.spark.submit import Submission, run_application
from tests.engine.cron.work.conftest import Given

#: It makes two contexts and stops both itself; names its work by a description, by a group and by nothing; needs a
#: stage twice; has a streaming query of three batches, which ends by itself; and fails in a worker.
_KNOWN = """
import sys
from pyspark import SparkContext
from pyspark.sql import SparkSession
from engine.cron.work.spark import looking

looking.MOST_STAGES = 11
context = SparkContext.getOrCreate()
context.parallelize([1], 1).count()
context.stop()
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
context = spark.sparkContext
context.setJobDescription("stays by hotel")
summed = context.parallelize(range(100), 5).map(lambda x: (x % 3, x)).reduceByKey(lambda a, b: a + b, 3)
assert summed.count() == summed.count() == 3
context.setJobDescription(None)
context.setJobGroup("nightly", None)
context.parallelize(range(100), 4).count()
for name in ("spark.jobGroup.id", "spark.job.description"):
    context.setLocalProperty(name, None)
assert spark.range(0, 1_000, 1, 2).repartition(3).count() == 1_000
lines = spark.readStream.option("maxFilesPerTrigger", 1).text(sys.argv[1])
lines.writeStream.format("noop").queryName("arrivals").trigger(availableNow=True).start().awaitTermination()

def rate(hotel):
    raise ValueError(f"no rate for {hotel}")

try:
    context.parallelize(["HB-1"], 1).map(rate).collect()
finally:
    spark.stop()
"""
_BROKEN = """
from pyspark.sql import SparkSession
from engine.cron.work.spark import looking, telling

def broken(look, store):
    raise RuntimeError("no look at jobs")

looking.SparkLook._look_at_jobs = broken
telling.EVERY_S = 0.01
print("counted", SparkSession.builder.getOrCreate().sparkContext.parallelize(range(10), 3).count())
"""


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("collect at /srv/jobs/nightly/rates.py:12", "collect at rates.py:12"),
        ("collect at /srv/jobs/nightly/stays/rates.py:12", "collect at stays/rates.py:12"),
        ("collect at /home/ada/lib one/other.py:7", "collect at other.py:7"),
        # What the application calls it itself is left as it is.
        ("rates at /srv/jobs/nightly/rates.py", "rates at /srv/jobs/nightly/rates.py"),
        ("stays by hotel", "stays by hotel"),
        ("arrivals, batch = 3", "arrivals, batch = 3"),
    ],
)
def test_a_stage_tells_its_file_and_none_of_the_folders_of_the_machine(name: str, shown: str) -> None:
    assert with_place(name, Path("/srv/jobs/nightly")) == shown


@pytest.mark.long
def test_stages_tasks_and_queries_of_an_application_come_out_as_they_were(
    given: Given, spark: InstalledSpark, tmp_path: Path
) -> None:
    application, told, context = tmp_path / "known.py", list[SparkProgress](), given()
    application.write_text(_KNOWN)
    (tmp_path / "lines").mkdir()
    for number in range(3):
        (tmp_path / "lines" / f"{number}.txt").write_text("a\nb\n")
    wanted = Submission(application, args=[str(tmp_path / "lines")])
    outcome = run_application(context, spark, wanted, tmp_path / "scratch", told.append)
    log = context.log.read(last=True)
    assert outcome.reason == "it ended with exit code 1: ValueError: no rate for HB-1", log
    last = told[-1]
    assert last.jobs == SparkJobs(done=10, failed=1)
    assert last.tasks == SparkTasks(done=25, failed=1, total=26)
    # Of its place the name alone: it lies in the folder of the application.
    at = f" at {application.name}:"
    assert [(each.name.partition(at)[0], each.state, each.done, each.total) for each in last.stages] == [
        ("stays by hotel", "done", 5, 5),
        ("stays by hotel", "done", 3, 3),
        ("stays by hotel", "done", 3, 3),
        ("nightly", "done", 4, 4),
        *(("count", "done", tasks, tasks) for tasks in (2, 3, 1)),
        *((f"arrivals, batch = {number}", "done", 1, 1) for number in range(3)),
        ("collect", "failed", 0, 1),
    ]
    assert last.stages_left_out == 1
    assert all((each.ended_ms or 0) >= (each.began_ms or 0) > 0 for each in last.stages)
    assert [(each.name, each.active, each.batch) for each in last.queries] == [("arrivals", False, 2)]
    assert 0 < (last.memory_bytes or 0) <= (last.memory_most_bytes or 0)
    assert last.failure.splitlines()[:3] == [
        "ValueError: no rate for HB-1",
        "in a Python worker:",
        f'  File "{application}", line {_KNOWN[: _KNOWN.index("raise")].count(chr(10)) + 1}, in rate',
    ]
    assert "hbus:" not in log


@pytest.mark.long
def test_where_it_cannot_be_told_that_is_said_once_and_the_application_runs(
    given: Given, spark: InstalledSpark, tmp_path: Path
) -> None:
    application, told, context = tmp_path / "broken.py", list[SparkProgress](), given()
    application.write_text(_BROKEN)
    outcome = run_application(context, spark, Submission(application), tmp_path / "scratch", told.append)
    log = context.log.read(last=True)
    assert outcome.done, log
    assert told == []
    assert "counted 10\n" in log
    assert log.count("hbus: ") == 1
    assert "hbus: how far this application is cannot be told: RuntimeError: no look at jobs\n" in log
