"""The arguments of a program are for who may change its job: each may be a secret, and need not look like one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from engine.core.errors import BadInput
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.as_code import plan
from hbus_console.jobs.models import Job
from hbus_console.jobs.services.draft import JobDraft, snapshot
from hbus_console.jobs.services.foreseeing import foresee
from hbus_console.jobs.services.jobs import change_job, delete_job, restore_version
from hbus_console.jobs.services.secrecy import secrecy_of
from hbus_console.jobs.services.secrets import shown_target, shown_to
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.jobs.showing import MASK, shown_options
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.topics.conftest import Caller, actor

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
NAME = "close-of-day"
#: As strangers found them, three times behind the patterns.
LINES = (
    'sh -c "mysql --password=\\"S3CRET yy\\""',
    "sh -H 'X-Api-Key: S3CRET'",
    "sh --password -S3CRET",
    "sh '--password' S3CRET",
    "sh --password      S3CRET",
    "sh --pass S3CRET",
    "sh --password=a,S3CRET",
    "sh S3CRET",
)
SHOWN = f"sh {MASK}"


@pytest.fixture(autouse=True)
def programs(settings: Settings) -> None:
    settings.HBUS_JOB_COMMANDS = ["sh", "echo", "my prog"]


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    made = make_job("command", LINES[0])
    for line in LINES[1:]:
        change_job(SYSTEM, NAME, {"target": line}, "why")
    return made


@pytest.mark.parametrize(
    ("role", "sees"),
    [(Role.VIEWER, False), (Role.OPERATOR, False), (Role.EDITOR, False), (Role.GOVERNOR, False), (Role.ADMIN, True)],
)
def test_the_arguments_of_a_program_are_shown_to_who_may_change_its_job_alone(
    job: Job, signed_in: Callable[..., Client], calling: Callable[..., Caller], role: Role, sees: bool
) -> None:
    """Found by a stranger: of 61 lines with a secret many showed it, whatever patterns were added."""
    trigger(SYSTEM, NAME, Trigger(None, "why"))
    run = trigger(SYSTEM, NAME, Trigger(None, "why")).run
    client, api = signed_in(role), calling(role)
    pages = {page: client.get(f"/jobs/{page}").content.decode() for page in ("", "runs/", f"{NAME}/runs/{run.pk}/")}
    held = {page: client.get(f"/jobs/{NAME}/{page}").content.decode() for page in ("", "settings/", "versions/")}
    asked = (f"jobs/{NAME}", "jobs", f"jobs/{NAME}/versions")
    held |= {path: api("GET", path).content.decode() for path in asked}
    pages["API"] = api("GET", f"jobs/{NAME}/runs").content.decode()
    pages["search"] = client.get("/search/?q=mysq").content.decode()
    assert {page: "S3CRET" in text for page, text in held.items()} == dict.fromkeys(held, sees)
    assert [page for page, text in pages.items() if "S3CRET" in text or "mysql" in text] == []
    assert api("GET", f"jobs/{NAME}").json()["target"] == (LINES[-1] if sees else SHOWN)
    assert ("its arguments are for who may change what it runs" in held[""]) is not sees


def test_who_edits_the_job_and_no_program_leaves_its_arguments_as_they_are(job: Job) -> None:
    editor = actor(Role.EDITOR, "*")
    shown = shown_to(editor, NAME, snapshot(job), secrecy_of(NAME))
    assert shown["target"] == SHOWN
    change_job(editor, NAME, {"target": shown["target"], "options": shown["options"], "description": "mine"}, "why")
    job.refresh_from_db()
    assert (job.target, job.description) == (LINES[-1], "mine")
    with pytest.raises(Forbidden):
        change_job(editor, NAME, {"target": "sh other"}, "why")


def test_the_audit_log_has_none_and_says_that_they_changed(job: Job) -> None:
    change_job(SYSTEM, NAME, {"target": "echo other"}, "why")
    change_job(SYSTEM, NAME, {"schedule": "0 4 * * *"}, "why")
    restore_version(SYSTEM, NAME, 1, "back")
    delete_job(SYSTEM, NAME, NAME, "gone")
    entries = list(AuditEntry.objects.filter(action__startswith="job.").order_by("seq"))
    assert not any(word in str([each.before, each.after]) for each in entries for word in ("S3CRET", "other"))
    told = [(each.action, (each.after or {}).get("target"), (each.after or {}).get("masked")) for each in entries]
    changed = ("job.change", SHOWN, "changed")
    assert told == [
        ("job.create", SHOWN, None),
        *[changed] * 7,
        ("job.change", f"echo {MASK}", "changed"),
        ("job.change", f"echo {MASK}", None),
        ("job.restore", SHOWN, "changed"),
        ("job.delete", None, None),
    ]


def test_a_dry_run_tells_them_to_who_may_change_the_job(job: Job) -> None:
    assert next(iter(foresee(actor(Role.ADMIN), NAME, Trigger()))).said == f"a program: {LINES[-1]}"


def test_neither_a_dry_run_nor_a_plan_tells_them(job: Job) -> None:
    assert next(iter(foresee(actor(Role.OPERATOR), NAME, Trigger()))).said == f"a program: {SHOWN}"
    draft = JobDraft(NAME, "ops", "command", "sh S3CRET-2", "0 3 * * *")
    (planned,) = plan(SYSTEM, [draft])
    assert planned.differs == (("target", SHOWN, SHOWN),)


def test_what_is_shown_of_a_line_stands_for_it_and_for_no_other(job: Job, make_job: MakeJob) -> None:
    same = change_job(SYSTEM, NAME, {"target": SHOWN, "schedule": "0 5 * * *"}, "why")
    assert same.target == LINES[-1]
    (planned,) = plan(SYSTEM, [JobDraft(NAME, "ops", "command", SHOWN, "0 5 * * *")])
    assert planned.act == "same"
    refusals: list[Callable[[], Any]] = [
        lambda: change_job(SYSTEM, NAME, {"target": f"echo {MASK}"}, "why"),
        lambda: change_job(SYSTEM, NAME, {"target": f"{SHOWN} more"}, "why"),
        lambda: make_job("command", SHOWN, "other"),
    ]
    for refused in refusals:
        with pytest.raises(BadInput, match="arguments that are not known here") as error:
            refused()
        assert error.value.field == "target"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("sh", "sh"),
        ("'my prog' x", f"'my prog' {MASK}"),
        ("sh 'never closed", f"{MASK} {MASK}"),
        ("sh ''", SHOWN),
        ("", "''"),
    ],
)
def test_of_a_line_the_program_alone_is_seen(line: str, shown: str) -> None:
    assert shown_target({"kind": "command", "target": line}) == shown


def test_nor_are_the_arguments_of_an_application_seen() -> None:
    options = {"args": ["--pass", "S3CRET"], "py_files": ["rates.py"], "conf": {"a": "S3CRET"}}
    assert shown_options(options) == {"args": MASK, "py_files": ["rates.py"], "conf": {"a": MASK}}
    assert shown_options({"args": []}) == {"args": []}
