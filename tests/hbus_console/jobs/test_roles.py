"""The roles cron and jobs as they run in an installation: slots become runs, and a killed worker's run is noticed."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.core.errors import ConfigurationError
from engine.cron.work.spark.installed import find_spark
from tests.hbus_console.jobs.installed import shell, until
from tests.installation import RunningInstallation

pytestmark = [pytest.mark.xdist_group("installation"), pytest.mark.long]

_MAKE = """
import sys
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.jobs import create_job
from hbus_console.teams.models import Team
Team.objects.get_or_create(name="ops", contact="#ops")
python = sys.executable
sleeps = f"{python} -c 'import time; print(\\"begun\\", flush=True); time.sleep(600)'"
create_job(SYSTEM, JobDraft("ticks", "ops", "command", f"{python} -c 'print(1)'", "* * * * * *"))
create_job(SYSTEM, JobDraft("sleeps", "ops", "command", sleeps, "0 0 1 1 *", lease_s=3))
"""
_DIVIDED = """
import socket, sys
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.jobs import create_job
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.teams.models import Team
Team.objects.get_or_create(name="ops", contact="#ops")
says = f"{sys.executable} -c 'import os; print(os.environ[\\"HBUS_SHARD\\"] + \\"/\\" + os.environ[\\"HBUS_SHARDS\\"])'"
for name, more in (("halves", {"division": "shards", "shards": 2}), ("everywhere", {"division": "nodes"})):
    create_job(SYSTEM, JobDraft(name, "ops", "command", says, "0 0 1 1 *", **more))
    trigger(SYSTEM, name, Trigger(reason="a test"))
print(socket.gethostname())
"""
_TRIGGER = """
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.services.triggering import Trigger, trigger
print(trigger(SYSTEM, "sleeps", Trigger(reason="a test")).run.pk)
"""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, prepared: Path) -> Iterator[RunningInstallation]:
    more = {"HBUS_JOB_COMMANDS": sys.executable}
    made = RunningInstallation(tmp_path_factory.mktemp("jobs") / "state", "cron,jobs", more=more, template=prepared)
    try:
        yield made.start()
    finally:
        made.end()


def test_slots_become_runs_each_once_and_a_killed_workers_run_ends_with_its_log(
    installation: RunningInstallation,
) -> None:
    shell(installation, _MAKE)
    done = until(installation, lambda runs: sum(run["state"] == "done" for run in runs) >= 3)
    ticks = [run for run in done if run["job"] == "ticks" and run["state"] == "done"]
    slots = [run["slot"] for run in ticks]
    assert slots == sorted(set(slots))
    assert {run["log"] for run in ticks} == {"1\n"}

    number = int(shell(installation, _TRIGGER))

    def begun(runs: list[dict[str, Any]]) -> bool:
        return any(run["id"] == number and run["log"] == "begun\n" for run in runs)

    until(installation, begun)
    worker = psutil.Process(installation.role("jobs")["pid"])
    tree = worker.children(recursive=True)
    assert any("time.sleep" in " ".join(process.cmdline()) for process in tree)
    os.kill(worker.pid, signal.SIGKILL)
    psutil.wait_procs(tree, timeout=60)
    assert [process for process in tree if process.is_running() and process.status() != "zombie"] == []
    lost = until(installation, lambda runs: any(run["id"] == number and run["state"] == "lost lease" for run in runs))
    (run,) = [run for run in lost if run["id"] == number]
    assert (run["reason"], run["log"]) == ("its worker did not renew its lease", "begun\n")
    # The role was started anew, and slots go on; what a killed application worked in is removed.
    newest = max(run["id"] for run in lost)
    left = installation.state / "spark" / "7-1-left"
    left.mkdir(parents=True)
    until(installation, lambda runs: any(run["id"] > newest and run["state"] == "done" for run in runs))
    until(installation, lambda _: not left.exists())


def test_a_process_that_is_told_to_end_by_others_loses_its_run_and_judges_nothing(
    installation: RunningInstallation,
) -> None:
    """As when a service manager sends SIGTERM to all processes of a service at once."""
    number = int(shell(installation, _TRIGGER))
    until(installation, lambda runs: any(run["id"] == number and run["log"] == "begun\n" for run in runs))
    worker = psutil.Process(installation.role("jobs")["pid"])
    (busy,) = (
        each
        for each in worker.children()
        if any("time.sleep" in " ".join(its.cmdline()) for its in each.children(recursive=True))
    )
    busy.terminate()
    over = until(installation, lambda runs: any(run["id"] == number and run["state"] != "running" for run in runs))
    (run,) = [run for run in over if run["id"] == number]
    assert (run["state"], run["reason"]) == ("lost lease", "its worker did not renew its lease")


def test_each_shard_runs_and_what_is_for_a_node_is_done_by_its_workers(installation: RunningInstallation) -> None:
    host = shell(installation, _DIVIDED).strip()
    names = ("halves", "everywhere")

    def over(runs: list[dict[str, Any]]) -> bool:
        return sum(run["state"] == "done" and run["job"] in names for run in runs) == 3

    found = [run for run in until(installation, over) if run["job"] in names]
    assert {(run["job"], run["part"]): run["log"] for run in found} == {
        ("halves", "0/2"): "0/2\n",
        ("halves", "1/2"): "1/2\n",
        ("everywhere", f"@{host}"): "0/1\n",
    }


_ASKS_FOR_CLASSES = """
from hbus_console.wiring.spark import installed_spark, shared_classes
print(*shared_classes().options(installed_spark()))
"""


def test_the_worker_makes_the_shared_classes_that_a_start_of_spark_has_asked_for(
    installation: RunningInstallation,
) -> None:
    try:
        find_spark()
    except ConfigurationError as error:
        pytest.skip(f"{error.what} {error.remedy}")
    assert shell(installation, _ASKS_FOR_CLASSES).strip() == ""
    folder = installation.state / "spark-classes"
    deadline = time.monotonic() + 300
    while [each.suffix for each in folder.iterdir()] != [".classes"]:
        assert time.monotonic() < deadline, list(folder.iterdir())
        time.sleep(0.2)
    assert str(folder) in shell(installation, _ASKS_FOR_CLASSES)
