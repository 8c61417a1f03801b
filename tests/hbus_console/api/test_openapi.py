"""The OpenAPI document is complete and valid, and whatever fits it never makes the console fail."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import schemathesis
import yaml
from django.core.management import call_command
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from hypothesis import HealthCheck, Phase, given, settings
from pytest_django.live_server_helper import LiveServer
from schemathesis import GenerationMode, checks
from schemathesis.core.failures import Failure, FailureGroup

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, ScopedRole
from hbus_console.accounts import services as accounts
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.tokens import create_token
from hbus_console.api import reference_page
from tests.form import size
from tests.hbus_console.api.conftest import TOPIC, Caller

#: Tries of each operation, as often with what does not fit.
EXAMPLES = size(30, short=1)
pytestmark = [pytest.mark.django_db(databases=["default", "ledger"], transaction=True), pytest.mark.above_database]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    out = io.StringIO()
    call_command("spectacular", validate=True, fail_on_warn=True, stdout=out)
    found: dict[str, Any] = yaml.safe_load(out.getvalue())
    return found


def _paths(resolver: URLResolver, prefix: str = "") -> Iterator[str]:
    for entry in resolver.url_patterns:
        path = prefix + str(entry.pattern)
        if isinstance(entry, URLPattern):
            yield path
        else:
            yield from _paths(entry, path)


def test_it_is_openapi_3_1_and_valid(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")


def test_every_endpoint_stands_in_it(document: dict[str, Any]) -> None:
    served = sum(path.startswith("api/v1/") for path in _paths(get_resolver()))
    undocumented = {"schema", "docs/", "docs/<str:tag>/"}
    assert served - len(undocumented) == len(document["paths"])


def test_no_operation_is_described_by_what_it_is_made_of(document: dict[str, Any]) -> None:
    told = [each.get("description", "") for methods in document["paths"].values() for each in methods.values()]
    assert [text for text in told if text.startswith(("An endpoint", "A view"))] == []


def test_every_operation_has_a_summary_or_a_description(document: dict[str, Any]) -> None:
    bare = [
        f"{method} {path}"
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if not (operation.get("summary") or operation.get("description"))
    ]
    assert bare == []


def _bodies(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Of each change what the document says of its body."""
    return {
        operation["operationId"]: operation.get("requestBody", {})
        for methods in document["paths"].values()
        for operation in methods.values()
    }


def test_the_body_of_a_deletion_is_told(document: dict[str, Any], client: Client) -> None:
    bodies = _bodies(document)
    for name in ("topics_delete", "subscriptions_delete"):
        assert bodies[name]["content"]["application/json"]["schema"]["required"] == ["typed_name", "reason"]
    for name in ("alert_channels_delete", "alert_rules_delete", "teams_delete", "alert_silences_end"):
        assert "reason" in bodies[name]["content"]["application/json"]["schema"]["properties"]
    page = client.get("/api/v1/docs/topics/").content.decode()
    assert "typed_name" in page.partition('id="topics_delete"')[2].partition("</section>")[0]


def test_a_body_is_required_where_one_of_its_fields_is(document: dict[str, Any]) -> None:
    told = {name: body for name, body in _bodies(document).items() if body}
    needed = {
        name: all(form["schema"].get("required") for form in body["content"].values()) for name, body in told.items()
    }
    assert len(told) > 40
    assert sum(needed.values()) > 10
    assert {name: body.get("required", False) for name, body in told.items()} == needed


@pytest.mark.parametrize("body", [b"null", b"[]", b'""', b"0", b"false"])
def test_a_body_that_is_no_object_is_refused_and_none_is_an_empty_one(program: Any, body: bytes) -> None:
    call: Caller = program(Role.ADMIN)
    assert call("post", f"topics/{TOPIC}/pause", body).status_code == 422
    assert "Expected `object`" in call("patch", f"topics/{TOPIC}", body).json()["detail"]
    assert call("post", "operations/plan").json()["field"] == "kind"


def test_the_reference_fetches_nothing_from_outside(program: Any) -> None:
    person = accounts.create_user(SYSTEM, "reader", [ScopedRole(Role.VIEWER, "*")]).user
    client = Client()
    client.force_login(person)
    for path in ("/api/v1/docs/", "/api/v1/docs/topics/"):
        page = client.get(path).content.decode()
        assert re.findall(r'(?:src|href)="(?!/|#|\?)[^"]*"', page) == []
        assert "<style" not in page


def test_the_reference_tells_every_operation_and_leads_back(document: dict[str, Any], client: Client) -> None:
    index = client.get("/api/v1/docs/").content.decode()
    told = {
        operation["operationId"]: (method.upper(), path, operation["tags"][0])
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert set(re.findall(r'href="/api/v1/docs/[^"#]+#([^"]+)"', index)) == set(told)
    # With styles, scripts and icons of every page it stays below 300 kB.
    assert len(index.encode()) < 120_000
    for tag in {tag for _, _, tag in told.values()}:
        page = client.get(f"/api/v1/docs/{tag}/").content.decode()
        assert set(re.findall(r'<section class="panel" id="([^"]+)"', page)) == {
            name for name, (_, _, of) in told.items() if of == tag
        }
        assert 'href="/api/v1/docs/"' in page
        assert len(page.encode()) < 200_000, tag
    assert client.get("/api/v1/docs/nothing/").status_code == 404


def test_fields_inside_lists_and_alternatives_are_told_in_lines() -> None:
    body = {
        "type": "object",
        "required": ["rows"],
        "properties": {
            "rows": {"type": "array", "items": {"$ref": "#/components/schemas/Row"}},
            "due": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
        },
    }
    row = {"type": "object", "properties": {"tone": {"enum": ["ok", "bad"], "description": "how it is"}}}
    document = {
        "paths": {
            "/x": {"put": {"operationId": "x", "requestBody": {"content": {"application/json": {"schema": body}}}}}
        },
        "components": {"schemas": {"Row": row}},
    }
    (operation,) = reference_page.operations(document)
    assert operation.body == [
        reference_page.ToldField("rows", "list", required=True),
        reference_page.ToldField("rows[].tone", "one of ok, bad", text="how it is"),
        reference_page.ToldField("due", "time"),
    ]


#: What fits the document is still refused for what no document can say: a name is taken, a team is not there.
UNSAID = [checks.positive_data_acceptance]
#: Of a batch each message is judged by itself: one that does not fit is refused in its place of an answer of 200.
UNSAID_OF_BATCHES = [*UNSAID, checks.negative_data_rejection]


def _tried(operation: schemathesis.APIOperation[Any, Any], mode: GenerationMode, url: str, token: str) -> list[str]:
    """What was wrong with the answers to some requests of an operation."""
    left = UNSAID_OF_BATCHES if operation.path.endswith("/batch") else UNSAID

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def holds(case: schemathesis.Case) -> None:
        if "topic" in case.path_parameters:
            case.path_parameters["topic"] = TOPIC
        case.call_and_validate(base_url=url, headers={"Authorization": f"Bearer {token}"}, excluded_checks=left)

    try:
        holds()
    except (FailureGroup, Failure) as failed:
        return [f"{operation.label} {mode.value}: {each}" for each in getattr(failed, "exceptions", [failed])]
    return []


@pytest.mark.long
def test_every_answer_is_as_the_document_says(
    document: dict[str, Any], program: Caller, live_server: LiveServer
) -> None:
    """To what fits it and to what does not, by every check that schemathesis knows."""
    person = accounts.create_user(SYSTEM, "fuzzer", [ScopedRole(Role.ADMIN, "*")]).user
    token = create_token(actor_of(person), "fuzz", Role.ADMIN, "*", datetime.now(UTC) + timedelta(days=1)).raw
    tried: list[str] = []
    wrong: list[str] = []
    for result in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = result.ok()
        # The caller would end its own access: deactivate itself, revoke its token or reset its password.
        if operation.path.startswith(("/api/v1/users/", "/api/v1/tokens/")) and operation.method.upper() != "GET":
            continue
        for mode in GenerationMode:
            wrong += _tried(operation, mode, live_server.url, token)
        tried.append(operation.label)
    assert len(tried) > 30
    assert wrong == [], "\n".join(wrong)
