"""What a schema names of a secret, beside the word that calls it so, is seen as little as the secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from engine.core.errors import BadInput
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.models import Job
from hbus_console.jobs.parameter_form import parameter_fields
from hbus_console.jobs.services.foreseeing import foresee
from hbus_console.jobs.services.jobs import change_job
from hbus_console.jobs.services.secrecy import secrecy_of
from hbus_console.jobs.services.triggering import Trigger
from hbus_console.jobs.showing import MASK
from hbus_console.jobs.shown_schema import shown_schema
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
    (field,) = parameter_fields(schema, {}) or ()
    assert (field.type, field.value, field.options) == ("password", "", ())
