"""An application as it is handed to spark-submit: its words, its environment, and its end."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.cron.work.call import RunContext, WorkOutcome
from engine.cron.work.commands import Program, run_program
from engine.cron.work.spark.installed import InstalledSpark
from engine.cron.work.spark.progress_pipe import ProgressPipe, Tell
from engine.cron.work.spark.scratch import scratch_folder
from engine.cron.work.spark.travelling import ROOT, travelling_package

#: What holds unless a job says otherwise: no port is opened for pages, and the log is the application's own.
DEFAULTS = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "WARN"}
#: What runs the application in its driver.
_DRIVER = Path(__file__).with_name("driver.py")
#: What a cluster is found by, and this machine by it: passed on from the worker's environment.
PLACES_OF_CONF = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR")
CLUSTER = (*PLACES_OF_CONF, "SPARK_LOCAL_IP")


@dataclass(frozen=True, slots=True)
class Submission:
    """One application with what it is given. Its paths and its conf were checked."""

    application: Path
    conf: Mapping[str, str] = field(default_factory=dict)
    args: Sequence[str] = ()
    py_files: Sequence[Path] = ()
    master: str = "local[2]"


def run_application(
    context: RunContext,
    spark: InstalledSpark,
    wanted: Submission,
    parent: Path,
    tell: Tell = lambda _: None,
    *,
    java_options: Sequence[str] = (),
) -> WorkOutcome:
    """Run it to its end, as a program: with the same variables, and nothing of it outlives the run or the worker.

    It works in a folder of its own in ``parent``, which goes with the run. To executors hbus itself travels with
    what it brings along. ``tell`` hears how far it is, about once a second and at its end. ``java_options`` are of its
    driver's Java.
    """
    call = context.call
    with scratch_folder(parent, f"{call.run}-{call.attempt}") as folder:
        if has_executors(wanted.master):
            wanted = replace(wanted, py_files=[*wanted.py_files, travelling_package(parent, folder)])
        with ProgressPipe(folder, context, tell) as pipe:
            around = environment(spark, wanted.master, folder, java_options)
            outcome = run_program(context, Program(command(spark, wanted, pipe.path), folder, around))
        if outcome.done or context.why_stopped or not pipe.failure:
            return outcome
        return replace(outcome, reason=f"{outcome.reason}: {pipe.failure.splitlines()[0]}")


def command(spark: InstalledSpark, wanted: Submission, pipe: Path) -> list[str]:
    """The words of spark-submit. The driver is always a process of this machine: it ends with its run, and tells on
    ``pipe`` how far it is."""
    # Else it would have the name of what runs it.
    conf = {"spark.app.name": wanted.application.name} | DEFAULTS | dict(wanted.conf)
    return [
        *(str(spark.submit), "--master", wanted.master, "--deploy-mode", "client"),
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
        *(("--py-files", ",".join(map(str, wanted.py_files))) if wanted.py_files else ()),
        *(str(_DRIVER), str(pipe), str(wanted.application), *wanted.args),
    ]


def environment(spark: InstalledSpark, master: str, folder: Path, java_options: Sequence[str] = ()) -> dict[str, str]:
    """What Spark goes by; its driver's Java, by ``java_options`` too. Makes the Java of ``folder`` where there has to
    be one."""
    # Else workers run the first python3 of PATH, which need not be the driver's.
    python = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable)
    passed = {name: os.environ[name] for name in CLUSTER if name in os.environ}
    # Whoever is on one machine alone asks no name service who that is, and listens to nobody else.
    here = {"SPARK_LOCAL_IP": "127.0.0.1"} if is_local(master) else {}
    return {
        # Java reads its arguments by it.
        "LC_ALL": "C.UTF-8",
        **passed,
        **python,
        **here,
        # An application reads topics and the archive by its modules.
        "PYTHONPATH": str(ROOT),
        "SPARK_HOME": str(spark.home),
        "JAVA_HOME": str(spark.java.home_for_spark(folder)),
        "SPARK_LOCAL_DIRS": str(folder),
        "TMPDIR": str(folder),
        "SPARK_SUBMIT_OPTS": shlex.join([f"-Djava.io.tmpdir={folder}", "-XX:-UsePerfData", *java_options]),
    }


def has_executors(master: str) -> bool:
    """Whether the work is done by other processes than the driver's and its workers: these do not have its path."""
    return master.partition("[")[0] != "local"


def is_local(master: str) -> bool:
    """Whether all of it runs on this machine."""
    return master.partition("[")[0] in ("local", "local-cluster")
