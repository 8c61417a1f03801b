"""Applications run on the real Spark, and nothing of one is left when it has ended, however it ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from engine.cron.work.spark.installed import InstalledSpark
from engine.cron.work.spark.java import Java
from engine.cron.work.spark.progress import SparkProgress
from engine.cron.work.spark.scratch import remove_left_behind
from engine.cron.work.spark.submit import Submission, command, environment, run_application
from tests.engine.cron.work.conftest import Given

pytestmark = pytest.mark.long

#: JVM, driver, the daemon of the workers, and these.
PROCESSES = 5
_STUCK = """
import os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession

def tell():
    for pid in (os.getpid(), os.getppid()):
        Path(told, str(pid)).touch()

def stay(rows):
    tell()
    time.sleep(600)
    return rows

told = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
tell()
spark.sparkContext.parallelize([1, 2], 2).mapPartitions(stay).count()
"""
_WORKER = """
import sys
from pathlib import Path
from engine.cron.work.call import RunCall, RunContext
from engine.cron.work.log_spool import LogSpool
from engine.cron.work.spark.installed import find_spark
from engine.cron.work.spark.submit import Submission, run_application
application, told, folder = map(Path, sys.argv[1:])
context = RunContext(RunCall(1, "j", 1, 0, 1, "c"), LogSpool(folder / "runs", 1, 1))
run_application(context, find_spark(), Submission(application, args=[str(told)]), folder / "scratch")
"""


@pytest.fixture
def stuck(tmp_path: Path) -> tuple[Submission, Path]:
    """An application whose tasks do not end, and where its processes tell their numbers."""
    application, told = tmp_path / "stuck.py", tmp_path / "told"
    application.write_text(_STUCK)
    told.mkdir()
    return Submission(application, args=[str(told)]), told


def tree(told: Path) -> list[psutil.Process]:
    """All of it, once it is there."""
    until = time.monotonic() + 120
    while len(found := list(told.iterdir())) < PROCESSES:
        assert time.monotonic() < until, f"only {len(found)} processes have begun"
        time.sleep(0.05)
    processes = [psutil.Process(int(path.name)) for path in found]
    assert sorted("java" in process.name() for process in processes) == [False] * (PROCESSES - 1) + [True]
    return processes


def until_active(progress: list[SparkProgress], tasks: int) -> None:
    until = time.monotonic() + 120
    while not progress or progress[-1].tasks.active < tasks:
        assert time.monotonic() < until, "its driver does not tell of its tasks"
        time.sleep(0.05)


def left_of(processes: list[psutil.Process], within_s: float) -> list[psutil.Process]:
    _, alive = psutil.wait_procs(processes, timeout=within_s)
    return [each for each in alive if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


def test_a_cancelled_run_leaves_neither_the_jvm_nor_a_worker(
    given: Given, spark: InstalledSpark, stuck: tuple[Submission, Path], tmp_path: Path
) -> None:
    context, (wanted, told) = given(), stuck
    seen: list[psutil.Process] = []
    progress: list[SparkProgress] = []

    def cancel() -> None:
        try:
            seen.extend(tree(told))
            until_active(progress, 2)
        finally:
            context.stop("somebody cancelled it")

    canceller = threading.Thread(target=cancel)
    canceller.start()
    outcome = run_application(context, spark, wanted, tmp_path / "scratch", progress.append)
    canceller.join()
    assert len(seen) == PROCESSES, context.log.read(last=True)
    assert (outcome.done, outcome.reason) == (False, "somebody cancelled it")
    (ended,) = re.findall(r"^hbus: (asked to end: .*)$", context.log.read(last=True), re.MULTILINE)
    assert re.match(r"asked to end: java, \d python", ended)
    assert left_of(seen, 0) == []
    assert list((tmp_path / "scratch").iterdir()) == []
    (stage,) = progress[-1].stages
    assert (stage.state, stage.done, stage.active, stage.total, stage.ended_ms) == ("running", 0, 2, 2, None)


def test_when_the_worker_is_killed_neither_the_jvm_nor_a_worker_of_spark_lives_on(
    spark: InstalledSpark, stuck: tuple[Submission, Path], tmp_path: Path
) -> None:
    wanted, told = stuck
    worker = subprocess.Popen([sys.executable, "-c", _WORKER, str(wanted.application), str(told), str(tmp_path)])
    processes = tree(told)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    assert left_of(processes, 60) == []
    assert len(list((tmp_path / "scratch").iterdir())) == 1
    remove_left_behind(tmp_path / "scratch")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_an_exit_code_is_a_failure_that_may_be_tried_again(given: Given, spark: InstalledSpark, tmp_path: Path) -> None:
    application = tmp_path / "fails.py"
    application.write_text("raise SystemExit(3)")
    outcome = run_application(given(), spark, Submission(application), tmp_path / "scratch")
    assert (outcome.done, outcome.reason, outcome.again) == (False, "it ended with exit code 3", True)


SPARK = InstalledSpark(Path("/opt/spark"), Java(Path("/opt/java"), "17", True))


def test_the_words_end_where_those_of_the_application_begin() -> None:
    wanted = Submission(
        Path("/apps/a.py"),
        {"spark.ui.enabled": "true"},
        ["--master", "yarn"],
        [Path("/apps/b.py"), Path("/apps/c.zip")],
    )
    words = command(SPARK, wanted, Path("/run/progress"))
    driver = words[words.index("/run/progress") - 1]
    assert Path(driver).is_file()
    assert words == [
        *("/opt/spark/bin/spark-submit", "--master", "local[2]", "--deploy-mode", "client"),
        *("--conf", "spark.app.name=a.py"),
        *("--conf", "spark.ui.enabled=true", "--conf", "spark.ui.showConsoleProgress=false"),
        *("--conf", "spark.log.level=WARN", "--py-files", "/apps/b.py,/apps/c.zip"),
        *(driver, "/run/progress", "/apps/a.py", "--master", "yarn"),
    ]


@pytest.mark.parametrize(
    ("master", "listens"),
    [("local[2]", "127.0.0.1"), ("local-cluster[2,1,1024]", "127.0.0.1"), ("spark://m:7077", "10.0.0.7")],
)
def test_of_a_cluster_it_knows_what_the_worker_does(
    master: str, listens: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.7")
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    monkeypatch.setenv("SPARK_DAEMON_JAVA_OPTS", "-Dx")
    told = environment(SPARK, master, tmp_path)
    assert (told["SPARK_LOCAL_IP"], told["HADOOP_CONF_DIR"]) == (listens, "/etc/hadoop")
    assert told["PYSPARK_PYTHON"] == told["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert "SPARK_DAEMON_JAVA_OPTS" not in told
