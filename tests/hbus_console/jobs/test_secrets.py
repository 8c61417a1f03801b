"""What is secret of a job's parameters is shown to nobody, and goes no other way than it was given for."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.management import call_command

from engine.core.errors import BadInput
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.services.jobs import change_job, delete_job, restore_version
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.jobs.showing import MASK, masked
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.topics.conftest import actor

pytestmark = pytest.mark.django_db
NAME = "close-of-day"
PIN = {"type": "string", "writeOnly": True}
SCHEMA = {"type": "object", "properties": {"hotel": {"type": "string"}, "pin": PIN}}
GIVEN = {"hotel": "HB-1", "pin": "7351"}


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    return make_job("http", "https://1.1.1.1/", parameters=GIVEN, parameters_schema=SCHEMA)


SAID: dict[str, dict[str, Any]] = {
    "plainly": {"properties": {"pin": PIN}},
    "as a format": {"properties": {"pin": {"format": "password"}}},
    "by a reference": {"properties": {"pin": {"$ref": "#/$defs/a~1b"}}, "$defs": {"a/b": PIN}},
    "by a reference to itself": {"properties": {"pin": {"$ref": "#/properties/pin", "writeOnly": True}}},
    "of the whole": {"writeOnly": True},
    "of the whole, by a reference": {"$ref": "#/$defs/all", "$defs": {"all": {"properties": {"pin": PIN}}}},
    "in all of": {"allOf": [{}, {"properties": {"pin": PIN}}]},
    "in all of its own": {"properties": {"pin": {"allOf": [PIN]}}},
    "in any of": {"anyOf": [{"properties": {"pin": PIN}}, {}]},
    "in one of": {"oneOf": [{"properties": {"pin": PIN}}, {}]},
    "on a condition": {"if": {}, "then": {"properties": {"pin": PIN}}},
    "else": {"if": {}, "else": {"properties": {"pin": PIN}}},
    "beside another": {"dependentSchemas": {"hotel": {"properties": {"pin": PIN}}}},
    "by a pattern": {"patternProperties": {"^p": PIN}},
    "of all others": {"properties": {"hotel": {}}, "additionalProperties": PIN},
}


@pytest.mark.parametrize("schema", SAID.values(), ids=SAID)
def test_however_a_schema_says_it(schema: dict[str, Any]) -> None:
    assert masked(GIVEN, schema)["pin"] == MASK


@pytest.mark.parametrize("schema", [{"prefixItems": [PIN]}, {"items": PIN}, {"items": [PIN]}, {"contains": PIN}])
def test_of_what_stands_in_a_list(schema: dict[str, Any]) -> None:
    assert masked({"pins": ["7351"], "n": 1}, {"properties": {"pins": schema}}) == {"pins": [MASK], "n": 1}


@pytest.mark.parametrize(
    "name", ["privateKey", "Pass-Phrase", "db_pwd", "accessKey", "Authorization", "API_KEY", "apiKey", "client.secret"]
)
def test_a_telling_name_is_enough(name: str) -> None:
    assert masked({name: "x", "hotel": "y"}, None) == {name: MASK, "hotel": "y"}


def test_what_is_not_secret_is_shown() -> None:
    schema = {"properties": {"pin": PIN, "deep": {"properties": {"list": {"items": {"type": "integer"}}}}}}
    assert masked({"deep": {"list": [1, {"a": 2}]}, "n": None}, schema) == {"deep": {"list": [1, {"a": 2}]}, "n": None}


def test_the_audit_log_has_none_of_them_and_says_that_one_changed(job: Job) -> None:
    change_job(SYSTEM, NAME, {"parameters": {**GIVEN, "pin": "9999"}}, "rotated")
    restore_version(SYSTEM, NAME, 1, "back")
    delete_job(SYSTEM, NAME, NAME, "gone")
    entries = AuditEntry.objects.filter(action__startswith="job.")
    assert {each.action for each in entries} == {"job.create", "job.change", "job.restore", "job.delete"}
    for each in entries:
        for side in filter(None, (each.before, each.after)):
            assert side["parameters"] == {"hotel": "HB-1", "pin": MASK}
    assert entries.get(action="job.change").after["masked"] == "changed"


def test_who_reads_a_deleted_jobs_runs_reads_none_of_them(job: Job) -> None:
    run = trigger(SYSTEM, NAME, Trigger({"hotel": "HB-2", "pin": "4711"}, "why")).run
    delete_job(SYSTEM, NAME, NAME, "gone")
    assert JobRun.objects.get(pk=run.pk).parameters == {"hotel": "HB-2", "pin": MASK}


def test_a_plan_prints_none_of_them(job: Job, tmp_path: Any) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        f"jobs:\n  - name: {NAME}\n    owner: ops\n    kind: http\n    target: https://1.1.1.1/\n"
        "    schedule: '0 3 * * *'\n"
        "    parameters: {hotel: HB-1, pin: '9999'}\n"
        "    parameters_schema: {properties: {pin: {type: string, writeOnly: true}}}\n"
    )
    out = io.StringIO()
    call_command("job", "plan", str(file), stdout=out)
    assert "'pin': '•••'" in out.getvalue()
    assert "7351" not in out.getvalue()
    assert "9999" not in out.getvalue()


def test_the_mask_is_taken_for_what_it_hides_and_for_nothing_else(job: Job, make_job: MakeJob) -> None:
    changed = change_job(SYSTEM, NAME, {"parameters": {"hotel": "HB-2", "pin": MASK}}, "why")
    assert changed.parameters == {"hotel": "HB-2", "pin": "7351"}
    assert trigger(SYSTEM, NAME, Trigger({"pin": MASK}, "why")).run.parameters == {"pin": "7351"}
    for refused in (
        lambda: change_job(SYSTEM, NAME, {"parameters": {"key": MASK}}, "why"),
        lambda: trigger(SYSTEM, NAME, Trigger({"key": MASK}, "why")),
        lambda: make_job("http", "https://1.1.1.1/", "other", parameters={"pin": MASK}),
    ):
        with pytest.raises(BadInput, match="stands for a secret that is not known here") as error:
            refused()
        assert error.value.field == "parameters"


ELSEWHERE: dict[str, dict[str, Any]] = {
    "called something else": {"parameters_schema": None},
    "sent elsewhere": {"target": "https://8.8.8.8/"},
    "sent otherwise": {"options": {"method": "PUT"}},
    "shown masked": {"target": "https://8.8.8.8/", "parameters": {"pin": MASK}},
    "left beside": {"target": "https://8.8.8.8/", "parameters": {"hotel": "HB-2", "pin": MASK}},
}


@pytest.mark.parametrize("changes", ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_secret_that_nobody_typed_goes_no_other_way(job: Job, changes: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="pin is secret") as error:
        change_job(SYSTEM, NAME, changes, "why")
    assert error.value.field == "parameters"
    assert Job.objects.get(name=NAME).version == 1
    typed = {**changes, "parameters": GIVEN}
    assert change_job(SYSTEM, NAME, typed, "why").version == 2


def test_what_is_secret_is_no_reason_to_change_nothing_else(job: Job) -> None:
    assert change_job(SYSTEM, NAME, {"schedule": "0 4 * * *"}, "why").version == 2
    assert change_job(SYSTEM, NAME, {"target": "https://8.8.8.8/", "parameters": {"hotel": "HB-1"}}, "why").version == 3
    assert restore_version(SYSTEM, NAME, 1, "back").parameters == GIVEN


@pytest.mark.parametrize(
    "name", ["Transfer-Encoding", "connection", "Upgrade", "TE", "Proxy-Authorization", "Expect", "", "X y", " X", "X:"]
)
def test_a_header_that_is_the_connections_or_none_is_refused(make_job: MakeJob, name: str) -> None:
    with pytest.raises(BadInput, match=r"is of the connection|is no name of a header"):
        make_job("http", "https://1.1.1.1/", options={"headers": {name: "x"}})


@pytest.mark.parametrize(("kind", "target"), [("command", "rm -rf /"), ("publish", "no.such.topic")])
def test_who_may_not_do_it_is_not_told_what_there_is(make_job: MakeJob, kind: str, target: str) -> None:
    with pytest.raises(Forbidden) as error:
        make_job(kind, target, by=actor(Role.VIEWER))
    assert "no.such.topic" not in error.value.what.replace("on no.such.topic", "")
