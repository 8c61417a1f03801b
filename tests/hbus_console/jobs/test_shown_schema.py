"""What a schema names of a secret, beside the word that calls it so, is seen as little as the secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from engine.core.errors import BadInput
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.models import Job
from hbus_console.jobs.parameter_form import parameter_fields
from hbus_console.jobs.services.foreseeing import foresee
from hbus_console.jobs.services.jobs import change_job, delete_job
from hbus_console.jobs.services.secrecy import secrecy_of
from hbus_console.jobs.services.triggering import Trigger
from hbus_console.jobs.showing import MASK
from hbus_console.jobs.shown_schema import shown_schema
from hbus_console.jobs.views.trigger_sheet import trigger_sheet
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.topics.conftest import Caller, actor

NAME, SECRET, LATE = "close-of-day", "DEFSECRET1", "LATEVALUE2"
PIN = {"type": "string", "writeOnly": True}
HIDDEN: dict[str, dict[str, Any]] = {
    **{f"{word} of one": {"properties": {"pin": {**PIN, word: SECRET}}} for word in ("const", "default", "example")},
    **{f"{word} of one": {"properties": {"pin": {**PIN, word: [SECRET, "x"]}}} for word in ("enum", "examples")},
    "by its name": {"properties": {"password": {"default": SECRET}}},
    "by a word": {"properties": {"auth": {"const": SECRET}}},
    "said beside": {"properties": {"pin": {"const": SECRET}}, "allOf": [{"properties": {"pin": PIN}}]},
    "by a reference": {"properties": {"pin": {"$ref": "#/$defs/P"}}, "$defs": {"P": {**PIN, "default": SECRET}}},
    "referred to": {
        "properties": {"pin": {"writeOnly": True, "$ref": "#/$defs/P"}},
        "$defs": {"P": {"enum": [SECRET]}},
    },
    "led to by nothing": {"$defs": {"P": {"const": SECRET}}},
    "within": {"properties": {"pin": {"writeOnly": True, "properties": {"a": {"items": {"const": SECRET}}}}}},
    "around": {"default": {"password": SECRET}, "examples": [{"a": [{"token": SECRET}]}]},
    "of a pattern": {"patternProperties": {"^my_password$": {"const": SECRET}}},
    "in a condition": {"if": {"properties": {"pin": {"const": SECRET}}}, "properties": {"pin": PIN}},
    "by its form": {"properties": {"at": {"default": f"https://u:{SECRET}@h/"}}},
    "in items": {"properties": {"pins": {"items": {**PIN, "const": SECRET}}}},
    "recursive": {"properties": {"a": {"$ref": "#"}, "pin": {**PIN, "default": SECRET}}},
}


@pytest.mark.parametrize("schema", HIDDEN.values(), ids=HIDDEN)
def test_no_value_of_a_secret_is_seen_in_a_schema(schema: dict[str, Any]) -> None:
    assert SECRET not in str(shown_schema(schema))
    assert SECRET in str(schema)


def test_what_is_said_of_others_is_seen() -> None:
    plain = {
        "properties": {
            "hotel": {"enum": ["HB-1", "HB-2"], "default": "HB-1"},
            "default": {"type": "string", "const": "a"},
            "nights": {"items": {"$ref": "#/$defs/n"}, "examples": [[1, 2]]},
            "pin": {"writeOnly": True, "pattern": "^[0-9]+$"},
        },
        "$defs": {"n": {"const": 1}},
        "required": ["hotel"],
    }
    assert shown_schema(plain) == plain


def test_what_takes_too_long_is_masked_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbus_console.jobs.shown_schema.MOST_STEPS", 3)
    assert shown_schema({"properties": {"a": {"properties": {"hotel": {"default": "HB-1"}}}}}) == {
        "properties": {"a": {"properties": {"hotel": {"default": MASK}}}}
    }


def referring(named: dict[str, Any], times: int = 200) -> dict[str, Any]:
    """A schema whose walk is short, with a node that names values and that many ways lead to."""
    ways = {f"p{n}": {"$ref": "#/$defs/P"} for n in range(times)}
    return {"properties": {**ways, "hotel": {"default": "HB-1"}}, "$defs": {"P": named}}


MANY: dict[str, Any] = {
    "members": [dict.fromkeys((f"m{n}" for n in range(30)), "x")] * 10,
    "texts": [f"HB-{n}" for n in range(300)],
    "items of one": [[f"HB-{n}" for n in range(300)]],
    "a long text": ["x " * 150_000],
}


@pytest.mark.parametrize("examples", MANY.values(), ids=MANY)
def test_it_is_bounded_how_much_the_values_of_a_schema_are_looked_at(examples: list[Any]) -> None:
    """Found by a review: nobody caught what said so, and of texts none was counted."""
    few, many = referring({"examples": examples}, 2), referring({"examples": examples})
    assert shown_schema(few) == few
    shown = shown_schema(many)
    assert (shown["properties"]["hotel"], shown["$defs"]["P"]) == ({"default": MASK}, {"examples": [MASK]})
    # The walk alone is far from the bound.
    without = referring({"type": "string"})
    assert shown_schema(without) == without


def test_schemas_of_other_versions_count_also_where_they_say_nothing_of_it() -> None:
    schema = {"properties": {f"p{n}": {"default": "HB-1"} for n in range(200)}}
    others = [{"title": str(n)} for n in range(400)]
    assert shown_schema(schema, *others[:4]) == schema
    assert shown_schema(schema, *others)["properties"]["p0"] == {"default": MASK}


def test_the_form_of_a_text_is_looked_at_once_whatever_ways_lead_there(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def redacts(text: str) -> str:
        looked.append(text)
        return text

    monkeypatch.setattr("hbus_console.jobs.showing.redact_text", redacts)
    shown_schema(referring({"enum": ["HB-2", "HB-3"]}))
    assert sorted(looked) == ["HB-1", "HB-2", "HB-3"]


def test_a_job_whose_schema_takes_too_long_is_listed_changed_and_deleted(
    make_job: MakeJob, signed_in: Callable[..., Client], calling: Callable[..., Caller]
) -> None:
    schema = referring({"examples": MANY["members"]})
    make_job("http", "https://1.1.1.1/", parameters_schema=schema)
    client, api = signed_in(Role.VIEWER), calling(Role.VIEWER)
    answers = [client.get(f"/jobs/{NAME}/"), api("GET", "jobs"), api("GET", f"jobs/{NAME}/versions")]
    assert [each.status_code for each in answers] == [200] * 3
    change_job(SYSTEM, NAME, {"description": "mine"})
    delete_job(SYSTEM, NAME, NAME, "why")


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    schema = {
        "properties": {
            "password": {"writeOnly": True, "default": SECRET, "const": SECRET},
            "late": {"const": LATE},
            "hotel": {"enum": ["HB-1", "HB-2"]},
        }
    }
    return make_job("http", "https://1.1.1.1/", parameters={"password": SECRET}, parameters_schema=schema)


def test_neither_page_nor_api_nor_audit_log_nor_refusal_tells_it(
    job: Job, signed_in: Callable[..., Client], calling: Callable[..., Caller]
) -> None:
    """Found by a stranger: every viewer read it."""
    late = {"properties": {**job.parameters_schema["properties"], "late": {"writeOnly": True, "const": LATE}}}
    change_job(SYSTEM, NAME, {"parameters_schema": late, "parameters": {"password": SECRET}})
    viewer, api = signed_in(Role.VIEWER), calling(Role.OPERATOR)
    seen = [viewer.get(f"/jobs/{NAME}/{tail}").content.decode() for tail in ("", "settings/", "versions/")]
    seen += [api("GET", f"jobs/{NAME}{tail}").content.decode() for tail in ("", "/versions")]
    asked = {"password": "x"}, {"late": "x"}, {"password": ["x"]}
    seen += [api("POST", f"jobs/{NAME}/trigger/dry-run", {"parameters": each}).content.decode() for each in asked]
    assert [text for text in seen if SECRET in text or LATE in text] == []
    assert not any(SECRET in str([entry.before, entry.after]) for entry in AuditEntry.objects.all())
    assert "password is not what its schema allows" in seen[-3]
    with pytest.raises(BadInput, match="HB-2"):
        foresee(actor(Role.OPERATOR), NAME, Trigger({"hotel": "x"}))
    # Who may change it reads what they change.
    assert calling(Role.EDITOR)("GET", f"jobs/{NAME}").json()["parameters_schema"] == late
    assert SECRET in signed_in(Role.EDITOR).get(f"/jobs/{NAME}/").content.decode()


def test_a_schema_that_comes_back_as_it_was_shown_is_what_it_was(job: Job) -> None:
    shown = secrecy_of(NAME).shown_schema(job.parameters_schema)
    assert shown != job.parameters_schema
    assert change_job(SYSTEM, NAME, {"parameters_schema": shown}).version == 1
    changed = {"properties": {**job.parameters_schema["properties"], "password": {"writeOnly": True, "const": "B"}}}
    change_job(SYSTEM, NAME, {"parameters_schema": changed, "parameters": {"password": "B"}})
    assert AuditEntry.objects.order_by("-seq")[0].after["masked"] == "changed"


@pytest.mark.parametrize("kind", ["string", "boolean"])
def test_a_form_fills_in_no_secret(kind: str) -> None:
    schema = {"properties": {"pin": {"type": kind, "writeOnly": True, "default": True, "enum": [True]}}}
    (field,) = parameter_fields(schema, {}) or []
    assert (field.type, field.value, field.options) == ("password", "", ())


@pytest.mark.parametrize("word", ["default", "enum", "description"])
def test_nor_one_that_another_version_alone_calls_so(make_job: MakeJob, word: str) -> None:
    """Found by a review: the page and the API masked it, and the sheet on that page filled it in."""
    row = make_job("http", "https://1.1.1.1/", parameters_schema={"properties": {"pin": PIN}})
    said = {"default": SECRET, "enum": [SECRET], "description": ""}
    pin = {"type": "string", word: said[word]}
    hotel = {"type": "string", "default": "HB-1", "enum": ["HB-1", "HB-2"]}
    row = change_job(SYSTEM, NAME, {"parameters_schema": {"properties": {"pin": pin, "hotel": hotel}}})
    sheet = trigger_sheet(row, secrecy_of(NAME), {})
    pin_field, hotel_field = sheet["trigger_fields"]
    assert (pin_field.type, pin_field.value, pin_field.options) == ("password", "", ())
    assert (hotel_field.type, hotel_field.value, hotel_field.options) == ("select", "HB-1", ("HB-1", "HB-2"))
    assert sheet["trigger_json"] == "{}"


def test_a_value_that_may_be_seen_is_filled_in_beside_a_default_that_may_not() -> None:
    schema = {"properties": {"at": {"type": "string", "default": MASK, "enum": [MASK]}}}
    (field,) = parameter_fields(schema, {"at": "HB-1"}) or []
    assert (field.type, field.value, field.options) == ("text", "HB-1", ())


@pytest.fixture
def program(make_job: MakeJob, settings: Settings) -> Job:
    settings.HBUS_JOB_COMMANDS = ["sh"]
    return make_job("command", f"sh {LATE}", parameters_schema={"properties": {"pin": {**PIN, "default": SECRET}}})


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(("role", "sees"), [(Role.VIEWER, False), (Role.EDITOR, False), (Role.ADMIN, True)])
def test_all_of_one_answer_is_shown_to_the_same_people(
    signed_in: Callable[..., Client], calling: Callable[..., Caller], role: Role, sees: bool
) -> None:
    """Found by a review: who edits jobs and has them run no programs read in one field what another masked."""
    told = calling(role)("GET", f"jobs/{NAME}").json()
    words = {"target": LATE, "schema": SECRET, "parameters_schema": SECRET}
    assert {word: secret in str(told[word]) for word, secret in words.items()} == dict.fromkeys(words, sees)
    page = signed_in(role).get(f"/jobs/{NAME}/").content.decode()
    assert (SECRET in page, LATE in page) == (sees, sees)
