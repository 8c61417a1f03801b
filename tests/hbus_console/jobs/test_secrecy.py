"""What one version of a job calls secret is so in all of them, and in all that was ever run of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from engine.core.errors import BadInput
from engine.cron.work.functions import forget_functions, job_function
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.as_code import plan
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.jobs import change_job, delete_job
from hbus_console.jobs.services.secrecy import Secrecy, secrecies, secrecy_of
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.jobs.showing import MASK
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.topics.conftest import Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
NAME, TARGET = "close-of-day", "https://1.1.1.1/"
SCHEMA = {"type": "object", "properties": {"pin": {"type": "string", "writeOnly": True}, "n": {"type": "integer"}}}
PLAIN = {"type": "object", "properties": {"pin": {"type": "string"}, "n": {"type": "integer"}}}
PIN, OWN = "PIN-7733", "OWN-1122"
ROLES = [Role.VIEWER, Role.OPERATOR, Role.EDITOR]


@pytest.fixture
def run(make_job: MakeJob) -> JobRun:
    """A run of a job that declared its secret, which it does no longer."""
    make_job("http", TARGET, parameters={"pin": OWN, "n": 1}, parameters_schema=SCHEMA)
    made = trigger(SYSTEM, NAME, Trigger({"pin": PIN, "n": 2}, "why")).run
    change_job(SYSTEM, NAME, {"parameters_schema": None, "parameters": {"n": 1}})
    return made


@pytest.fixture
def late(make_job: MakeJob) -> JobRun:
    """A run of a job that declared its secret afterwards."""
    make_job("http", TARGET, parameters={"pin": OWN, "n": 1}, parameters_schema=PLAIN)
    made = trigger(SYSTEM, NAME, Trigger({"pin": PIN, "n": 2}, "why")).run
    change_job(SYSTEM, NAME, {"parameters_schema": SCHEMA})
    return made


def _told(client: Client, api: Caller, run: JobRun) -> list[str]:
    """All that anybody can read of the job and of its run."""
    pages = ["", "settings/", "versions/", f"runs/{run.pk}/"]
    calls = ["", "/versions", "/runs", f"/runs/{run.pk}"]
    texts = [client.get(f"/jobs/{NAME}/{page}").content.decode() for page in pages]
    texts += [api("GET", f"jobs/{NAME}{path}").content.decode() for path in calls]
    return [*texts, *(api("GET", path).content.decode() for path in ("runs", "jobs"))]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("when", ["run", "late"])
def test_a_secret_of_any_version_is_hidden_in_all_and_in_their_runs(
    when: str, role: Role, signed_in: Callable[..., Client], calling: Callable[..., Caller], request: Any
) -> None:
    made = request.getfixturevalue(when)
    client, api = signed_in(role), calling(role)
    texts = _told(client, api, made)
    assert [(PIN in text, OWN in text) for text in texts] == [(False, False)] * len(texts)
    assert api("GET", f"jobs/{NAME}/runs/{made.pk}").json()["parameters"] == {"pin": MASK, "n": 2}


def test_the_sheet_of_an_old_run_asks_for_the_secret_that_the_job_has_no_more(
    run: JobRun, signed_in: Callable[..., Client]
) -> None:
    client = signed_in(Role.OPERATOR)
    shown = client.get(f"/jobs/{NAME}/runs/{run.pk}/").context
    assert MASK in shown["trigger_json"]
    assert MASK in str(shown["trigger_curl"].body)
    with pytest.raises(BadInput, match="not known here"):
        trigger(SYSTEM, NAME, Trigger({"pin": MASK, "n": 2}, "again"))


def test_a_secret_that_is_left_empty_in_the_sheet_is_the_jobs_own(make_job: MakeJob) -> None:
    make_job("http", TARGET, parameters={"pin": OWN, "n": 1}, parameters_schema=SCHEMA)
    change_job(SYSTEM, NAME, {"parameters_schema": PLAIN, "parameters": {"pin": OWN, "n": 1}})
    known = Job.objects.get(name=NAME).parameters
    sent = secrecy_of(NAME).still_masked({"n": 3}, known)
    assert trigger(SYSTEM, NAME, Trigger(sent, "why")).run.parameters == {"pin": OWN, "n": 3}


def test_the_audit_log_and_a_plan_show_none_of_an_older_version(run: JobRun) -> None:
    trigger(SYSTEM, NAME, Trigger({"pin": "PIN-9", "n": 3}, "once more"))
    change_job(SYSTEM, NAME, {"parameters": {"pin": "PIN-8"}})
    told = [str([each.before, each.after]) for each in AuditEntry.objects.all()]
    assert not [text for text in told if PIN in text or OWN in text or "PIN-9" in text or "PIN-8" in text]
    draft = JobDraft(NAME, "ops", "http", TARGET, "0 3 * * *", parameters={"pin": "PIN-7"})
    (planned,) = plan(SYSTEM, [draft])
    assert "PIN-8" not in str(planned.differs)
    assert "PIN-7" not in str(planned.differs)


def test_a_job_that_is_deleted_leaves_none_of_an_older_version(run: JobRun) -> None:
    delete_job(SYSTEM, NAME, NAME, "gone")
    assert JobRun.objects.get(pk=run.pk).parameters == {"pin": MASK, "n": 2}


def test_a_secret_of_an_older_version_goes_no_other_way_either(make_job: MakeJob) -> None:
    make_job("http", TARGET, parameters={"pin": OWN}, parameters_schema=SCHEMA)
    change_job(SYSTEM, NAME, {"parameters_schema": None, "parameters": {"pin": OWN}})
    with pytest.raises(BadInput, match="pin is secret"):
        change_job(SYSTEM, NAME, {"target": "https://8.8.8.8/"})


@pytest.fixture
def function() -> Iterator[str]:
    @job_function("test.greet")
    def greet(who: str, n: int = 1) -> None: ...

    yield "test.greet"
    forget_functions("test.greet")


def test_what_a_function_was_given_that_is_not_here_any_more_is_hidden(make_job: MakeJob, function: str) -> None:
    """It alone knew what of that is secret."""
    row = make_job("function", function, parameters={"who": OWN})
    settings = row.versions.get().settings
    assert secrecy_of(NAME).masked({"who": OWN}, settings) == {"who": OWN}
    forget_functions(function)
    assert secrecy_of(NAME).masked({"who": OWN}, settings) == {"who": MASK}
    assert secrecy_of(NAME).masked({"who": OWN}, {**settings, "kind": "http"}) == {"who": OWN}


def test_those_of_many_jobs_are_asked_for_together(make_job: MakeJob, django_assert_num_queries: Any) -> None:
    for name in ("a", "b"):
        make_job("http", TARGET, name, parameters={"pin": OWN}, parameters_schema=SCHEMA)
        change_job(SYSTEM, name, {"timeout_s": 60})
    make_job("http", TARGET, "c")
    with django_assert_num_queries(1):
        found = secrecies(["a", "b", "c", "d"])
    assert {name: len(each.schemas) for name, each in found.items()} == {"a": 1, "b": 1, "c": 0, "d": 0}
    with django_assert_num_queries(0):
        assert secrecies([]) == {}
    assert Secrecy().masked({"pin": OWN, "api_key": OWN}) == {"pin": OWN, "api_key": MASK}
