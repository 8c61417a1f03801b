"""Jobs of the kind ``spark``: who may have one, what one may say, and what its application is told."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from engine.core.errors import BadInput, ConfigurationError
from engine.cron.slots.steps import RunState
from engine.cron.work.spark import installed
from engine.cron.work.spark.installed import find_spark
from engine.cron.work.spark.progress import SparkJobs, SparkTasks
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.jobs import live
from hbus_console.jobs.models import Job, JobRun, LogPiece
from hbus_console.jobs.progress import progress_of
from hbus_console.jobs.services.draft import SETTINGS
from hbus_console.jobs.services.jobs import change_job
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.jobs.working.process import RunProcess
from hbus_console.spark_fetch.progress import Living, Phase, Progress, write
from hbus_console.wiring.spark import shared_classes
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.topics.conftest import actor

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", "ledger"]),
    pytest.mark.above_database,
    pytest.mark.usefixtures("own_keys", "offered", "apps"),
]

_PROBE = """
import json, os, sys
from pyspark.sql import SparkSession
import rates

def seen_by_a_worker(rows):
    import rates
    yield sys.executable, sum(rows) * rates.RATE

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setJobDescription(json.loads(os.environ["HBUS_PARAMETERS"])["password"] + " of the night")
((python, total),) = spark.sparkContext.parallelize(range(10), 1).mapPartitions(seen_by_a_worker).collect()
asked = ("spark.sql.shuffle.partitions", "spark.ui.enabled", "spark.app.name")
print(json.dumps({
    "args": sys.argv[1:], "conf": [spark.conf.get(name) for name in asked], "total": total, "python": python,
    "master": spark.sparkContext.master, "pages": spark.sparkContext.uiWebUrl, "folder": os.getcwd(),
    "told": {name: text for name, text in os.environ.items() if name.startswith("HBUS_") or name == "REDIS_URL"},
}))
"""


@pytest.fixture
def apps(tmp_path: Path, settings: Settings) -> Path:
    """The folder that the administrator names."""
    try:
        find_spark()
    except ConfigurationError as error:
        pytest.skip(f"{error.what} {error.remedy}")
    folder = tmp_path / "apps"
    (folder / "nightly").mkdir(parents=True)
    (folder / "nightly" / "probe.py").write_text(_PROBE)
    (folder / "rates.py").write_text("RATE = 3\n")
    (tmp_path / "outside.py").write_text("print('outside')\n")
    (folder / "out.py").symlink_to(tmp_path / "outside.py")
    settings.HBUS_SPARK_APPS = str(folder)
    return folder


def triggered(by: Actor, **parameters: str) -> JobRun:
    return trigger(by, "close-of-day", Trigger(parameters or None, "a test")).run


def log_of(run: JobRun) -> str:
    return "".join(LogPiece.objects.filter(run=run.pk).values_list("text", flat=True))


@pytest.mark.long
def test_it_runs_with_its_arguments_conf_and_parameters_and_its_output_is_the_log(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://:hidden@store")
    settings.HBUS_SPARK_MASTER = "local[1]"
    words = ["--master", "yarn", "", "two words", "é $HOME *", "--help"]
    conf = {"spark.sql.shuffle.partitions": "3", "spark.app.name": "the night's close"}
    make_job("spark", "nightly/probe.py", options={"args": words, "conf": conf, "py_files": ["rates.py"]})
    run = triggered(admin_actor, hotel="HB-1", password="hunter2hunter2")
    assert worker.run(run.pk) is RunState.DONE, log_of(run)
    log = log_of(run)
    said = json.loads(next(line for line in log.splitlines() if line.startswith("{")))
    assert (said["args"], said["conf"]) == (words, ["3", "false", "the night's close"])
    assert (said["master"], said["pages"]) == ("local[1]", None)
    assert (said["total"], said["python"]) == (45 * 3, sys.executable)
    assert json.loads(said["told"].pop("HBUS_PARAMETERS")) == {"hotel": "HB-1", "password": "[redacted]"}
    assert said["told"] == {
        "HBUS_RUN": str(run.pk), "HBUS_JOB": "close-of-day", "HBUS_SLOT": str(run.slot), "HBUS_ATTEMPT": "1",
        "HBUS_EPOCH": "1", "HBUS_CORRELATION": run.correlation_id, "HBUS_SHARD": "0", "HBUS_SHARDS": "1",
    }  # fmt: skip
    folder = Path(said["folder"])
    assert (folder.parent, folder.exists()) == (Path(settings.STATE) / "spark", False)
    assert shared_classes().wanted
    kept = progress_of(run.pk)
    assert kept is not None
    assert (kept.attempt, kept.said.tasks, kept.said.jobs) == (1, SparkTasks(done=1, total=1), SparkJobs(done=1))
    assert kept.said.stages[0].name.startswith("[redacted] of the night")


@pytest.mark.parametrize(
    ("target", "options", "field"),
    [
        ("../outside.py", {}, "target"),
        ("out.py", {}, "target"),
        ("no-such.py", {}, "target"),
        ("nightly/probe.py", {"py_files": ["../outside.py"]}, "options"),
        ("nightly/probe.py", {"py_files": ["out.py"]}, "options"),
        ("nightly/probe.py", {"py_files": "rates.py"}, "options"),
        ("nightly/probe.py", {"conf": {"spark.master": "yarn"}}, "options"),
        ("nightly/probe.py", {"conf": {"spark.jars.packages": "a:b:1"}}, "options"),
        ("nightly/probe.py", {"conf": {"spark.task.cpus": 1}}, "options"),
        ("nightly/probe.py", {"conf": []}, "options"),
        ("nightly/probe.py", {"args": "a"}, "options"),
        ("nightly/probe.py", {"args": [1]}, "options"),
        ("nightly/probe.py", {"args": ["a\nb"]}, "options"),
        ("nightly/probe.py", {"master": "yarn"}, "options"),
        ("nightly/probe.py", {"environment": {"SPARK_HOME": "/x"}}, "options"),
    ],
)
def test_what_it_may_not_say_is_refused_at_its_field(
    make_job: MakeJob, target: str, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadInput) as refused:
        make_job("spark", target, options=options)
    assert (refused.value.field, bool(refused.value.remedy)) == (field, True)
    assert not Job.objects.exists()


def test_an_absolute_path_is_refused_also_within_the_folder(make_job: MakeJob, apps: Path) -> None:
    with pytest.raises(BadInput) as refused:
        make_job("spark", str(apps / "nightly" / "probe.py"))
    assert refused.value.field == "target"


def test_an_application_that_leads_out_of_the_folder_by_now_does_not_run(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, apps: Path
) -> None:
    make_job("spark", "nightly/probe.py", attempts=3, after_failure="retry")
    run = triggered(admin_actor)
    (apps / "nightly" / "probe.py").unlink()
    (apps / "nightly" / "probe.py").symlink_to(apps.parent / "outside.py")
    assert worker.run(run.pk) is RunState.FAILED
    run.refresh_from_db()
    assert run.reason.startswith("nightly/probe.py leads out of the folder of applications.")


def test_without_a_folder_of_applications_the_kind_is_off(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, settings: Settings
) -> None:
    make_job("spark", "nightly/probe.py", attempts=3, after_failure="retry")
    run = triggered(admin_actor)
    settings.HBUS_SPARK_APPS = ""
    assert worker.run(run.pk) is RunState.FAILED
    run.refresh_from_db()
    assert run.reason.startswith("No folder is named whose Spark applications jobs may run.")
    with pytest.raises(BadInput) as refused:
        make_job("spark", "nightly/probe.py", name="another")
    assert refused.value.field == "kind"
    assert "HBUS_SPARK_APPS" in refused.value.remedy


def test_where_spark_is_not_installed_it_is_refused_and_what_is_there_fails_for_good(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job("spark", "nightly/probe.py", attempts=3, after_failure="retry")
    run = triggered(admin_actor)
    monkeypatch.setattr(installed, "find_spec", lambda _: None)
    assert worker.run(run.pk) is RunState.FAILED
    run.refresh_from_db()
    assert run.reason.startswith("Spark is not installed here")
    assert "make spark" in run.reason
    with pytest.raises(BadInput) as refused:
        make_job("spark", "nightly/probe.py", name="another")
    assert refused.value.field == "kind"
    assert "make spark" in refused.value.remedy


@pytest.fixture
def noted(tmp_path: Path, settings: Settings) -> Path:
    """A state folder of one's own, where nothing is fetched so far."""
    settings.STATE = tmp_path / "state"
    return tmp_path / "state"


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From then on there is no Spark."""
    return lambda: monkeypatch.setattr(installed, "find_spec", lambda _: None)


def fetching(folder: Path, phase: Phase, said: str = "") -> None:
    """As a fetch beside this console notes it."""
    here = Living.of(os.getpid())
    write(folder, Progress(phase, here, here, "pyspark", 214_000_000, 456_000_000, said))


def test_while_it_is_being_fetched_it_is_said_how_far_that_is(
    make_job: MakeJob, signed_in: Callable[..., Client], noted: Path, missing: Callable[[], None]
) -> None:
    job = make_job("spark", "nightly/probe.py")
    page, told = signed_in(), "Spark is being fetched: 214 of 456 MB of pyspark."
    pages = ("/jobs/new/", f"/jobs/{job.name}/", f"/jobs/{job.name}/settings/")
    assert not any("Spark is" in page.get(each).content.decode() for each in pages)
    assert live.kept(0, ("*",)).texts["spark/kind"] == ""
    missing()
    assert all("Spark is not installed here" in page.get(each).content.decode() for each in pages)
    fetching(noted, Phase.DOWNLOADING)
    assert all(told in page.get(each).content.decode() for each in pages)
    assert live.kept(0, ("*",)).texts["spark/kind"] == told
    with pytest.raises(BadInput) as refused:
        make_job("spark", "nightly/probe.py", name="another")
    assert (refused.value.field, refused.value.what) == ("kind", told)


def test_a_run_meanwhile_may_be_tried_again(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, noted: Path, missing: Callable[[], None]
) -> None:
    make_job("spark", "nightly/probe.py", attempts=2, after_failure="retry")
    missing()
    fetching(noted, Phase.DOWNLOADING)
    run = triggered(admin_actor)
    worker.run(run.pk)
    run.refresh_from_db()
    assert (run.state, "Spark is being fetched: 214 of 456 MB" in run.reason) == (RunState.CLAIMED.value, True)


def test_while_it_is_being_replaced_the_one_that_is_found_is_not_taken(make_job: MakeJob, noted: Path) -> None:
    fetching(noted, Phase.BUILDING)
    make_job("spark", "nightly/probe.py")
    fetching(noted, Phase.INSTALLING)
    with pytest.raises(BadInput, match="Spark is being fetched: installing pyspark"):
        make_job("spark", "nightly/probe.py", name="another")


def test_what_its_fetch_failed_of_is_said_to_who_may_have_programs_run_alone(
    make_job: MakeJob, signed_in: Callable[..., Client], noted: Path, missing: Callable[[], None]
) -> None:
    missing()
    fetching(noted, Phase.FAILED, "no room on the disk")
    with pytest.raises(BadInput) as refused:
        make_job("spark", "nightly/probe.py")
    assert refused.value.what.endswith("Fetching it failed: no room on the disk.")
    assert "make spark" in refused.value.remedy
    with pytest.raises(Forbidden):
        make_job("spark", "nightly/probe.py", by=actor(Role.GOVERNOR))
    form = signed_in().get("/jobs/new/").content.decode()
    assert "Spark could not be fetched." in form
    assert "no room on the disk" not in form


def test_the_form_offers_it_and_says_at_the_field_what_is_wrong(
    signed_in: Callable[..., Client], make_job: MakeJob
) -> None:
    page = signed_in()
    assert '<option value="spark">spark: a Spark application</option>' in page.get("/jobs/new/").content.decode()
    job = make_job("http", "https://1.1.1.1/")
    form = {**SETTINGS.snapshot(job), "options": "{}", "parameters": "{}", "parameters_schema": "", "revision": "1"}
    wrong = page.post(f"/jobs/{job.name}/settings/", {**form, "kind": "spark", "target": "../outside.py"})
    assert wrong.status_code == 422
    assert "no path of a file .py below the folder" in wrong.content.decode()


def test_it_takes_the_right_to_run_programs_and_who_lacks_it_learns_of_no_file(make_job: MakeJob) -> None:
    for target in ("nightly/probe.py", "no-such.py"):
        with pytest.raises(Forbidden, match="programs"):
            make_job("spark", target, by=actor(Role.GOVERNOR))
    make_job("spark", "nightly/probe.py", by=actor(Role.ADMIN))


def test_it_runs_by_the_right_that_its_account_has_now(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor
) -> None:
    user = User.objects.create_user("anna", password="x")
    grant = user.grants.create(role=Role.ADMIN.value, scope="*")
    make_job("spark", "nightly/probe.py")
    change_job(actor_of(user), "close-of-day", {"options": {"args": ["a"]}}, "anna's")
    run = triggered(admin_actor)
    grant.role = Role.GOVERNOR.value
    grant.save()
    assert worker.run(run.pk) is RunState.FAILED
    run.refresh_from_db()
    assert run.reason == "anna may not have jobs run programs."
