"""What a run was given in secret stands in nothing that comes of it, whoever ships its log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from engine.cron.slots.steps import RunState
from engine.cron.work.call import RunContext
from engine.cron.work.functions import forget_functions, job_function
from engine.cron.work.log_spool import LogSpool
from hbus_console.access.permissions import Actor
from hbus_console.jobs.models import JobAttempt, JobRun, LogPiece
from hbus_console.jobs.services.jobs import change_job, delete_job
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.jobs.working.process import RunProcess
from hbus_console.jobs.working.shipping import ship_left_behind
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", "ledger"]),
    pytest.mark.usefixtures("own_keys", "offered"),
]

SECRET, NAME = "PINSECRET9", "close-of-day"
SCHEMA = {"properties": {"pin": {"type": "string", "writeOnly": True}}}


@pytest.fixture
def functions() -> Iterator[None]:
    def returns(context: RunContext, db_pass: str) -> dict[str, str]:
        """Say it."""
        print(f"the pin is {db_pass}")
        return {"the pin": db_pass}

    def fails(context: RunContext, db_pass: str) -> None:
        """Say it in an error."""
        raise ValueError(f"no such pin: {db_pass}")

    job_function("test.returns")(returns)
    job_function("test.fails")(fails)
    yield
    forget_functions("test.returns", "test.fails")


def triggered(by: Actor, parameters: dict[str, Any] | None = None) -> JobRun:
    return trigger(by, NAME, Trigger(parameters, "a test")).run


def log_of(run: JobRun) -> str:
    return "".join(LogPiece.objects.filter(run=run.pk).values_list("text", flat=True))


@pytest.mark.parametrize("own", [None, {"pin": SECRET, "hotel": "HB-1"}], ids=["the job's", "its own"])
def test_a_program_that_prints_its_parameters_shows_no_secret_of_them(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, settings: Settings, own: dict[str, Any] | None
) -> None:
    settings.HBUS_JOB_COMMANDS = ["sh"]
    environment = {"DB_PASSWD": "ENVSECRET9", "LEVEL": "info"}
    make_job(
        "command", "sh -c 'echo $HBUS_PARAMETERS; echo $DB_PASSWD at $LEVEL'",
        parameters={"pin": SECRET, "hotel": "HB-2"}, parameters_schema=SCHEMA, options={"environment": environment},
    )  # fmt: skip
    run = triggered(admin_actor, own)
    assert worker.run(run.pk) is RunState.DONE
    hotel = "HB-2" if own is None else "HB-1"
    log = log_of(run)
    assert SECRET not in log
    assert f'"hotel": "{hotel}"' in log
    assert '"pin": "[redacted]"' in log
    assert log.endswith("[redacted] at info\n")


@pytest.mark.parametrize(
    "work",
    [
        ("sh -c 'echo said hunter-two' --password hunter-two", {}),
        ("sh -c 'echo said hunter-two' password=hunter-two", {}),
        ("sh -c 'echo said hunter-two'", {"environment": {"SENT": "Bearer hunter-two"}}),
        ("sh -c 'echo said hunter-two'", {"environment": {"DATABASE": "postgres://u:hunter-two@h/d"}}),
        ("sh -c 'echo said hunter-two' --password 'hunter-two'", {}),
        ("sh -c 'echo said hunter-two' -H 'Authorization: Bearer hunter-two'", {}),
        ("sh -c 'echo said hunter-two' -H 'Authorization: token  hunter%2Dtwo'", {}),
        ("sh -c 'echo said hunter-two' -H 'Authorization: Basic dXNlcjpodW50ZXItdHdv'", {}),
        ("sh -c 'echo said user:hunter-two' -H 'Authorization: Basic dXNlcjpodW50ZXItdHdv'", {}),
        ("sh -c 'echo said hunter-two' -H 'Cookie: theme=said; sid=hunter-two'", {}),
        ("sh -c 'echo said hunter-two'", {"environment": {"COOKIE": 'sid="hunter-two"; theme=said'}}),
        ("sh -c 'echo said hunter-two'", {"environment": {"SENT": "Authorization: Basic dXNlcjpodW50ZXItdHdv"}}),
        ("sh -c 'echo said hunter-two'", {"environment": {}}, {"credentials": {"sent": ["Bearer hunter-two"]}}),
    ],
    ids=[
        "an argument", "a setting", "behind a scheme", "in an address", "a quoted argument", "of a header",
        "in percents", "a password of a name", "with its name", "a cookie", "one of an option",
        "of a header in an option", "deep within",
    ],
)  # fmt: skip
def test_nor_does_it_show_one_that_says_by_its_form_that_it_is_one(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, settings: Settings, work: tuple[Any, ...]
) -> None:
    settings.HBUS_JOB_COMMANDS = ["sh"]
    target, options, *parameters = work
    make_job("command", target, options=options, **({"parameters": parameters[0]} if parameters else {}))
    run = triggered(admin_actor)
    assert worker.run(run.pk) is RunState.DONE
    assert log_of(run) == "said [redacted]\n"


def test_what_is_none_beside_one_stays(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, settings: Settings
) -> None:
    settings.HBUS_JOB_COMMANDS = ["sh"]
    words = "user at db.example.com, dark, 401: token hunter-two is expired"
    options = {"environment": {"DSN_SECRET": "Server=db.example.com;Timeout=30"}}
    make_job("command", f"sh -c 'echo {words}' -H 'Cookie: sid=hunter-two; theme=dark'", options=options)
    run = triggered(admin_actor)
    assert worker.run(run.pk) is RunState.DONE
    assert log_of(run) == "user at db.example.com, dark, 401: token [redacted] is expired\n"


def test_a_secret_of_a_scheduled_run_is_that_of_its_version(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, settings: Settings
) -> None:
    settings.HBUS_JOB_COMMANDS = ["sh"]
    make_job("command", "sh -c 'echo $HBUS_PARAMETERS'", parameters={"pin": SECRET}, parameters_schema=SCHEMA)
    run = triggered(admin_actor)
    JobRun.objects.filter(pk=run.pk).update(parameters=None)
    change_job(admin_actor, NAME, {"parameters": {"pin": "another-pin"}})
    assert worker.run(run.pk) is RunState.DONE
    assert log_of(run) == '{"pin": "[redacted]"}\n'


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("test.returns", ('{"the pin": "[redacted]"}', "")),
        ("test.fails", ("", "ValueError: no such pin: [redacted]")),
    ],
)
def test_neither_what_a_function_returns_nor_its_error_says_one(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, function: str, said: tuple[str, str]
) -> None:
    make_job("function", function, parameters={"db_pass": SECRET})
    run = triggered(admin_actor)
    worker.run(run.pk)
    run.refresh_from_db()
    assert (run.summary, run.reason) == said
    texts = [log_of(run), *JobAttempt.objects.filter(run=run.pk).values_list("reason", flat=True)]
    assert not any(SECRET in text for text in texts)
    assert "[redacted]" in texts[0]


@pytest.mark.parametrize("deleted", [False, True], ids=["there", "deleted since"])
def test_the_log_that_a_killed_worker_left_shows_none_either(
    make_job: MakeJob, admin_actor: Actor, tmp_path: Path, deleted: bool
) -> None:
    make_job("http", "https://1.1.1.1/", parameters={"pin": SECRET}, parameters_schema=SCHEMA)
    run = triggered(admin_actor)
    left = LogSpool(tmp_path, run.pk, 1)
    left.write(f"last words: {SECRET}\n")
    left.close()
    if deleted:
        delete_job(admin_actor, NAME, NAME, "gone")
    assert ship_left_behind(tmp_path) == 1
    # With its job it is forgotten what of it is secret.
    assert log_of(run) == ("[redacted]\n" if deleted else "last words: [redacted]\n")
