"""Applications on executors of their own: a standalone master, one of whose workers is killed, and a local cluster."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from engine.cron.work.spark.installed import InstalledSpark
from engine.cron.work.spark.progress import SparkProgress
from engine.cron.work.spark.submit import Submission, environment, run_application
from hbus_console.supervisor.store import free_port
from tests.engine.cron.work.conftest import Given

pytestmark = pytest.mark.long

#: Eight tasks, each of which tells its number and waits for a gate; then as many as there are keys.
_GATED = """
import os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession

told, gate = map(Path, sys.argv[1:])

def held(rows):
    (told / str(os.getpid())).touch()
    while not gate.exists():
        time.sleep(0.05)
    return rows

context = SparkSession.builder.appName("gated").getOrCreate().sparkContext
context.setJobDescription("held at the gate")
held_back = context.parallelize(range(80), 8).mapPartitions(held)
print("summed", sorted(held_back.map(lambda x: (x % 2, x)).reduceByKey(lambda a, b: a + b, 2).collect()))
"""
_SUMMED = f"summed {[(0, sum(range(0, 80, 2))), (1, sum(range(1, 80, 2)))]}\n"


@pytest.fixture
def gated(tmp_path: Path) -> tuple[Path, Path, Path]:
    """The application, where its tasks tell of themselves, and its gate."""
    (tmp_path / "gated.py").write_text(_GATED)
    (tmp_path / "told").mkdir()
    return tmp_path / "gated.py", tmp_path / "told", tmp_path / "gate"


def until(holds: Callable[[], object], what: str) -> None:
    late = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < late, what
        time.sleep(0.05)


class Cluster:
    """A standalone master with two workers of one core, all on the loopback."""

    def __init__(self, spark: InstalledSpark, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        (folder / "java-home").mkdir()
        self._environment = {**os.environ, **environment(spark, "local", folder / "java-home")}
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        self._begun = [self._begin("master.Master", "--port", str(port))]
        self.workers = [self._work(name) for name in ("a", "b")]
        until(lambda: self._log().count("Registering worker") == 2, "the workers do not come")

    def _work(self, name: str) -> psutil.Process:
        folder = str(self._folder / name)
        words = ("worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", folder, self.master)
        return psutil.Process(self._begin(*words).pid)

    def _begin(self, role: str, *words: str) -> subprocess.Popen[bytes]:
        program = str(self._spark.home / "bin" / "spark-class")
        with (self._folder / f"{role}.log").open("ab") as log:
            begun = subprocess.Popen(
                [program, f"org.apache.spark.deploy.{role}", "--host", "127.0.0.1", "--webui-port", "0", *words],
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        if role != "master.Master":
            self._begun.append(begun)
        return begun

    def _log(self) -> str:
        return (self._folder / "master.Master.log").read_text()

    def close(self) -> None:
        for begun in self._begun:
            kill(psutil.Process(begun.pid))
            begun.wait()


def kill(root: psutil.Process) -> None:
    """With all that it has started, at once."""
    for process in [*root.children(recursive=True), root]:
        process.kill()


@pytest.fixture
def cluster(spark: InstalledSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    folder = tmp_path / "cluster"
    folder.mkdir()
    made = Cluster(spark, folder)
    yield made
    made.close()


def test_a_worker_that_is_killed_in_mid_job_fails_no_run_and_its_tasks_are_seen_to_be_done_again(
    given: Given, spark: InstalledSpark, cluster: Cluster, gated: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    (application, told, gate), context = gated, given()
    progress: list[SparkProgress] = []

    def kill_one() -> None:
        try:
            until(lambda: progress and progress[-1].tasks.active == 2, "its tasks do not begin")
            kill(cluster.workers[0])
        finally:
            gate.touch()

    killer = threading.Thread(target=kill_one)
    killer.start()
    wanted = Submission(
        application,
        {"spark.executor.memory": "512m"},
        [str(told), str(gate)],
        master=cluster.master,
    )
    outcome = run_application(context, spark, wanted, tmp_path / "scratch", progress.append)
    killer.join()
    log = context.log.read(last=True)
    assert outcome.done, log
    assert _SUMMED in log
    last = progress[-1]
    assert last.tasks.failed >= 1
    assert last.tasks.done == last.tasks.total >= 10
    assert {each.name for each in last.stages} == {"held at the gate"}
    assert {each.state for each in last.stages if each.done == each.total} == {"done"}


@pytest.mark.whole
def test_a_local_cluster_runs_it_in_executors_of_their_own(
    given: Given, spark: InstalledSpark, gated: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    (application, told, gate), context = gated, given()
    gate.touch()
    progress: list[SparkProgress] = []
    wanted = Submission(application, args=[str(told), str(gate)], master="local-cluster[2,1,1024]")
    outcome = run_application(context, spark, wanted, tmp_path / "scratch", progress.append)
    log = context.log.read(last=True)
    assert outcome.done, log
    assert _SUMMED in log
    last = progress[-1]
    assert [(each.name, each.state, each.done, each.total) for each in last.stages] == [
        ("held at the gate", "done", 8, 8),
        ("held at the gate", "done", 2, 2),
    ]
    assert (last.tasks.done, last.tasks.failed, last.tasks.total) == (10, 0, 10)
    # What is left is hbus as it travels, for the next run.
    assert [path.suffix for path in (tmp_path / "scratch").iterdir()] == [".zip"]
