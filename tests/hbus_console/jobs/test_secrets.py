"""What is secret of a job's parameters is shown to nobody, and goes no other way than it was given for."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from engine.core.errors import BadInput
from engine.core.redaction import REDACTED
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.as_code import plan
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.parameter_form import parameter_fields
from hbus_console.jobs.schema_walk import calls_none_secret
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.foreseeing import foresee
from hbus_console.jobs.services.jobs import change_job, delete_job, restore_version
from hbus_console.jobs.services.secrecy import secrecy_of
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.jobs.showing import MASK, is_secret, masked, restored
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.topics.conftest import Caller, actor

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
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
    "by an anchor": {"properties": {"pin": {"$ref": "#sec"}}, "$defs": {"x": {"$anchor": "sec", **PIN}}},
    "by one of several anchors": {
        "properties": {"pin": {"$ref": "#sec"}},
        "$defs": {"x": {"$anchor": "sec"}, "y": {"$id": "y", "$defs": {"z": {"$anchor": "sec", **PIN}}}},
    },
    "by a dynamic anchor": {
        "properties": {"pin": {"$dynamicRef": "#sec"}}, "$defs": {"x": {"$dynamicAnchor": "sec", **PIN}}
    },
    "within a part of its own": {
        "properties": {"pin": {"$id": "urn:pin", "$ref": "#/$defs/x", "$defs": {"x": PIN}}}, "$defs": {"x": {}}
    },
    "within a part of its own that a pointer goes through": {
        "properties": {"pin": {"$ref": "#/$defs/p/$defs/y"}},
        "$defs": {"p": {"$id": "urn:p", "$defs": {"y": {"$ref": "#/$defs/x"}, "x": PIN}}, "x": {}},
    },
    "within a part of its own that an anchor lies in": {
        "properties": {"pin": {"$ref": "#sec"}},
        "$defs": {"p": {"$id": "urn:p", "$defs": {"y": {"$anchor": "sec", "$ref": "#/$defs/x"}, "x": PIN}}, "x": {}},
    },
    "of the whole, from a part of its own": {
        "properties": {"pin": {"$id": "#", "$ref": "#/$defs/x"}}, "$defs": {"x": PIN}
    },
    "by a pointer in percents": {"properties": {"pin": {"$ref": "#/%24defs/a%2520b"}}, "$defs": {"a%20b": PIN}},
    "where nobody can follow it": {"properties": {"pin": {"$ref": "#/$defs/none"}}},
    "at an anchor that is none": {"properties": {"pin": {"$ref": "#none"}}},
    "out of it": {"properties": {"pin": {"$ref": "https://example.com/pin"}}},
    "at no schema": {"properties": {"pin": {"$ref": "#/$defs"}}, "$defs": [PIN]},
    "at a place without end": {"properties": {"pin": {"$ref": f"#/allOf/{'9' * 5_000}"}}, "allOf": [{}]},
    "beside another, as it was written before": {"dependencies": {"hotel": {"properties": {"pin": PIN}}, "n": ["pin"]}},
    "by an older reference": {"$recursiveRef": "#/$defs/all", "$defs": {"all": {"properties": {"pin": PIN}}}},
    "in capitals": {"properties": {"pin": {"format": "Password"}}},
    "as a text": {"properties": {"pin": {"writeOnly": "true"}}},
    "within a text": {"properties": {"pin": {"contentSchema": {"properties": {"inner": PIN}}}}},
    "of its names": {"properties": {"pin": {"propertyNames": {"format": "password"}}}},
    "as no text": {"properties": {"pin": {"$ref": 7}}},
}  # fmt: skip


@pytest.mark.parametrize("schema", SAID.values(), ids=SAID)
def test_however_a_schema_says_it(schema: dict[str, Any]) -> None:
    assert masked(GIVEN, schema)["pin"] == MASK


@pytest.mark.parametrize("schema", SAID.values(), ids=SAID)
def test_nobody_leaves_such_a_schema_out(schema: dict[str, Any]) -> None:
    assert not calls_none_secret(schema, json.dumps(schema))


REFERRING: list[dict[str, Any]] = [
    {"properties": {"pin": {"$ref": "#sec"}}, "$defs": {"x": {"$anchor": "sec", "type": "string"}}},
    {"properties": {"pin": {"$id": "p", "$ref": "#/$defs/x", "$defs": {"x": True}}}},
    {"properties": {"pin": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"anyOf": [{"type": "string"}, {"$ref": "#"}]}}},
    {"properties": {"$ref": {"type": "string"}}},
]


@pytest.mark.parametrize("schema", REFERRING)
def test_a_reference_alone_makes_nothing_secret(schema: dict[str, Any]) -> None:
    assert masked(GIVEN, schema) == GIVEN
    assert calls_none_secret(schema, json.dumps(schema))


def test_a_form_knows_what_is_secret_by_a_reference() -> None:
    pin = {"type": "string", "$ref": "#/$defs/x", "default": "7351"}
    (field,) = parameter_fields({"properties": {"pin": pin}, "$defs": {"x": PIN}}, {}) or []
    assert (field.type, field.value) == ("password", "")
    (field,) = parameter_fields({"properties": {"pin": pin}, "$defs": {"x": {}}}, {}) or []
    assert (field.type, field.value) == ("text", "7351")


def test_a_secret_that_is_null_comes_back_as_null() -> None:
    known = {"pin": None, "deep": {"pins": [None, "7"]}}
    hidden = {"pin": MASK, "deep": {"pins": [MASK, MASK]}}
    assert restored(hidden, known, hidden) == known
    for typed in ({"other": MASK}, {"deep": {"other": MASK}}, {"deep": {"pins": [MASK]}}, {"pin": {"inner": MASK}}):
        with pytest.raises(BadInput, match=r"not known here|deep\.pins holds a secret, and is not as it was shown"):
            restored(typed, known, hidden)


def test_a_job_whose_secret_is_null_is_changed_and_run_as_it_is_shown(make_job: MakeJob) -> None:
    either = {"type": ["string", "null"], "writeOnly": True}
    make_job("http", "https://1.1.1.1/", parameters={"pin": None}, parameters_schema={"properties": {"pin": either}})
    change_job(SYSTEM, NAME, {"parameters": {"pin": MASK, "hotel": "HB-2"}})
    assert Job.objects.get(name=NAME).parameters == {"pin": None, "hotel": "HB-2"}
    assert trigger(SYSTEM, NAME, Trigger({"pin": MASK}, "why")).run.parameters == {"pin": None}
    known = Job.objects.get(name=NAME).parameters
    sent = secrecy_of(NAME).still_masked({"hotel": "HB-3"}, known)
    assert trigger(SYSTEM, NAME, Trigger(sent, "why")).run.parameters == {"pin": None, "hotel": "HB-3"}


@pytest.mark.parametrize("schema", [{"prefixItems": [PIN]}, {"items": PIN}, {"items": [PIN]}, {"contains": PIN}])
def test_of_what_stands_in_a_list(schema: dict[str, Any]) -> None:
    assert masked({"pins": ["7351"], "n": 1}, {"properties": {"pins": schema}}) == {"pins": [MASK], "n": 1}


@pytest.mark.parametrize(
    "name",
    [
        *("privateKey", "Pass-Phrase", "db_pwd", "accessKey", "Authorization", "API_KEY", "apiKey", "client.secret"),
        *("db_pass", "signing_key", "auth", "X-Auth", "sessionCookie", "bearer"),
    ],
)
def test_a_telling_name_is_enough(name: str) -> None:
    assert masked({name: "x", "hotel": "y"}) == {name: MASK, "hotel": "y"}
    assert is_secret(name, {"type": "string"})


@pytest.mark.parametrize("name", ["passengers", "pinned", "author", "compass", "partitionkey", "key"])
def test_a_part_of_another_word_tells_nothing(name: str) -> None:
    assert masked({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    "value",
    ["postgres://u:k3y@h/db", ["--db-password", "k3y"], {"a": ["Bearer k3yk3yk3yk3y"]}, "x --token k3yk3y"],
    ids=["an address", "an argument of its own", "deep", "an argument in a line"],
)
def test_a_value_that_is_one_by_its_form_is_masked(value: Any) -> None:
    assert "k3y" not in str(masked({"plain": value}))


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


NESTED = {"auth": {"user": "svc", "password": "S3cret"}, "pins": [{"pin_token": "1"}, {"pin_token": "2"}], "n": 1}
BESIDE: dict[str, dict[str, Any]] = {
    "another user": {**NESTED, "auth": {"user": "svc2", "password": MASK}},
    "the user alone": {"auth": {"user": "svc", "password": MASK}},
    "something added": {**NESTED, "auth": {"user": "svc", "more": 1, "password": MASK}},
    "a list as shown": {**NESTED, "pins": [{"pin_token": MASK}, {"pin_token": MASK}]},
    "the whole of it": {"auth": MASK},
    "all as shown": masked(NESTED),
}


@pytest.mark.parametrize("parameters", BESIDE.values(), ids=BESIDE)
@pytest.mark.parametrize(
    "elsewhere",
    [{"target": "https://8.8.8.8/"}, {"options": {"method": "PUT"}}, {"parameters_schema": {"type": "object"}}],
    ids=lambda changes: next(iter(changes)),
)
def test_a_mask_goes_no_other_way_whatever_was_changed_around_it(
    make_job: MakeJob, parameters: dict[str, Any], elsewhere: dict[str, Any]
) -> None:
    make_job("http", "https://1.1.1.1/", parameters=NESTED)
    with pytest.raises(BadInput, match="is secret, and would go another way") as error:
        change_job(SYSTEM, NAME, {**elsewhere, "parameters": parameters})
    assert error.value.field == "parameters"
    assert Job.objects.get(name=NAME).version == 1
    assert change_job(SYSTEM, NAME, {**elsewhere, "parameters": NESTED}).parameters == NESTED


def test_what_is_refused_is_named_by_its_place(make_job: MakeJob) -> None:
    make_job("http", "https://1.1.1.1/", parameters=NESTED)
    with pytest.raises(BadInput, match=r"^auth.password, pins.0.pin_token, pins.1.pin_token is secret"):
        change_job(SYSTEM, NAME, {"target": "https://8.8.8.8/"})


def test_a_file_sends_none_elsewhere_either(make_job: MakeJob) -> None:
    make_job("http", "https://1.1.1.1/", parameters=NESTED)
    draft = JobDraft(NAME, "ops", "http", "https://8.8.8.8/", "0 3 * * *", parameters=BESIDE["another user"])
    with pytest.raises(BadInput, match="is secret, and would go another way"):
        plan(SYSTEM, [draft])


def test_a_mask_among_the_options_goes_to_no_other_address(make_job: MakeJob) -> None:
    make_job("http", "https://1.1.1.1/", options={"headers": {"X-Api-Key": "k", "Accept": "a"}})
    masked_key = {"headers": {"X-Api-Key": MASK, "Accept": "b"}}
    with pytest.raises(BadInput, match=r"headers.X-Api-Key is secret") as error:
        change_job(SYSTEM, NAME, {"target": "https://8.8.8.8/", "options": masked_key})
    assert error.value.field == "options"


def test_what_is_secret_is_no_reason_to_change_nothing_else(job: Job) -> None:
    assert change_job(SYSTEM, NAME, {"schedule": "0 4 * * *"}, "why").version == 2
    assert change_job(SYSTEM, NAME, {"target": "https://8.8.8.8/", "parameters": {"hotel": "HB-1"}}, "why").version == 3
    assert restore_version(SYSTEM, NAME, 1, "back").parameters == GIVEN


@pytest.mark.parametrize(
    "name",
    [
        "Transfer-Encoding",
        "connection",
        "Upgrade",
        "TE",
        "Proxy-Authorization",
        "Expect",
        "",
        "X y",
        " X",
        "X:",
        "Transfer_Encoding",
    ],
)
def test_a_header_that_is_the_connections_or_none_is_refused(make_job: MakeJob, name: str) -> None:
    with pytest.raises(BadInput, match=r"is of the connection|is no name of a header"):
        make_job("http", "https://1.1.1.1/", options={"headers": {name: "x"}})


@pytest.mark.parametrize("name", ["Authorization", "X-Hbus-Job", "X_Hbus_Signature", "Content_Length"])
def test_a_header_that_is_ours_is_refused_however_receivers_may_spell_it(make_job: MakeJob, name: str) -> None:
    with pytest.raises(BadInput, match=r"is not yours to set"):
        make_job("http", "https://1.1.1.1/", options={"headers": {name: "x"}})


@pytest.mark.parametrize(("kind", "target"), [("command", "rm -rf /"), ("publish", "no.such.topic")])
def test_who_may_not_do_it_is_not_told_what_there_is(make_job: MakeJob, kind: str, target: str) -> None:
    with pytest.raises(Forbidden) as error:
        make_job(kind, target, by=actor(Role.VIEWER))
    assert "no.such.topic" not in error.value.what.replace("on no.such.topic", "")


KEY, OTHER = "k3y-9f8e7d6c5b4a39281706f5e4d3c2b1a0", "0ther-1f8e7d6c5b4a39281706f5e4d3c2b1a"
ADDRESS, SHOWN = f"https://1.1.1.1/close?key={KEY}", "https://1.1.1.1/close"


@pytest.fixture
def call(make_job: MakeJob) -> Job:
    return make_job("http", ADDRESS, options={"method": "PUT", "headers": {"X-Api-Key": KEY, "Accept": "text/html"}})


@pytest.mark.parametrize(("role", "sees"), [(Role.VIEWER, False), (Role.OPERATOR, False), (Role.EDITOR, True)])
def test_keys_of_a_call_are_shown_to_who_may_change_it_alone(
    call: Job, signed_in: Callable[..., Client], calling: Callable[..., Caller], role: Role, sees: bool
) -> None:
    change_job(SYSTEM, NAME, {"target": ADDRESS.replace(KEY, OTHER), "options": {"headers": {"X-Api-Key": OTHER}}})
    client, api = signed_in(role), calling(role)
    pages = [f"/jobs/{NAME}/", f"/jobs/{NAME}/settings/", f"/jobs/{NAME}/versions/"]
    texts = [client.get(page).content.decode() for page in pages]
    texts += [api("GET", path).content.decode() for path in (f"jobs/{NAME}", "jobs", f"jobs/{NAME}/versions")]
    assert [OTHER in text for text in texts] == [sees] * len(texts)
    assert [KEY in text for text in texts] == [False, False, sees, False, False, sees]
    assert api("GET", f"jobs/{NAME}").json()["target"] == (ADDRESS.replace(KEY, OTHER) if sees else SHOWN)


def test_nobody_finds_them_in_the_audit_log_which_says_that_one_changed(call: Job) -> None:
    change_job(SYSTEM, NAME, {"target": ADDRESS.replace(KEY, OTHER)})
    made, changed = AuditEntry.objects.order_by("seq")
    assert (made.after["target"], made.after["options"]["headers"]["X-Api-Key"]) == (SHOWN, REDACTED)
    assert changed.after["masked"] == "changed"
    assert not any(key in str([each.before, each.after]) for each in (made, changed) for key in (KEY, OTHER))


def test_the_dry_run_of_a_trigger_tells_none(call: Job) -> None:
    assert next(iter(foresee(actor(Role.OPERATOR), NAME, Trigger()))).said == f"an HTTP call: {SHOWN}"


def test_what_is_shown_of_a_call_stands_for_what_it_is(call: Job, make_job: MakeJob) -> None:
    shown = {"method": "PUT", "headers": {"X-Api-Key": MASK, "Accept": "*/*"}}
    changed = change_job(SYSTEM, NAME, {"target": SHOWN, "options": shown})
    assert (changed.target, changed.options["headers"]) == (ADDRESS, {"X-Api-Key": KEY, "Accept": "*/*"})
    with pytest.raises(BadInput, match="not known here") as refused:
        make_job("http", "https://1.1.1.1/", "other", options=shown)
    assert refused.value.field == "options"


@pytest.mark.parametrize(("role", "sees"), [(Role.VIEWER, False), (Role.EDITOR, True)])
def test_what_has_chosen_names_among_the_options_is_shown_by_these_alone(
    make_job: MakeJob, calling: Callable[..., Caller], role: Role, sees: bool
) -> None:
    """Found by a stranger: a list of telling names knows neither every header nor every setting."""
    headers = {"X-Whatever": "k3y-1", "Ocp-Apim": "k3y-2", "Accept": "text/html"}
    make_job("http", ADDRESS, options={"headers": headers})
    api = calling(role)
    shown = api("GET", f"jobs/{NAME}").json()["options"]["headers"]
    assert shown == (headers if sees else {"X-Whatever": MASK, "Ocp-Apim": MASK, "Accept": "text/html"})
    made = AuditEntry.objects.filter(after__kind="http").get()
    assert "k3y" not in str(made.after)


def test_a_schema_that_takes_long_to_look_through_is_refused_and_never_looked_through_whole(make_job: MakeJob) -> None:
    """Found by a stranger: 12 kB of patterns for 3,000 names cost 9 s with each look at the list of jobs."""
    props: dict[str, Any] = {f"k{n}": {} for n in range(1_000)}
    schema = {"patternProperties": {f"^x{n}$": {"title": "a"} for n in range(500)}, "properties": props}
    parameters = dict.fromkeys(props, 0)
    assert set(masked(parameters, schema).values()) == {MASK}
    with pytest.raises(BadInput, match="too long to look through") as refused:
        make_job("http", ADDRESS, parameters=parameters, parameters_schema=schema)
    assert refused.value.field == "parameters"
    # Names that the schema does not know share one answer, and so do the items of a list.
    others = {"ids": list(range(20_000)), **{f"other{n}": 0 for n in range(3_000)}}
    assert masked(others, schema) == others
