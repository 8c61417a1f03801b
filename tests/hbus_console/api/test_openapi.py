"""The OpenAPI document is complete and valid, and whatever fits it never makes the console fail."""

from __future__ import annotations

import io
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

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, ScopedRole
from hbus_console.accounts import services as accounts
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.tokens import create_token
from tests.hbus_console.api.conftest import TOPIC, Caller

#: Tries of each operation; raise it for a longer search.
EXAMPLES = 6
pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    out = io.StringIO()
    call_command("spectacular", validate=True, fail_on_warn=True, api_version="v1", stdout=out)
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
    undocumented = {"schema", "docs/"}
    assert served - len(undocumented) == len(document["paths"])


def test_every_operation_has_a_summary_or_a_description(document: dict[str, Any]) -> None:
    bare = [
        f"{method} {path}"
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if not (operation.get("summary") or operation.get("description"))
    ]
    assert bare == []


def test_the_reference_fetches_nothing_from_outside(program: Any) -> None:
    person = accounts.create_user(SYSTEM, "reader", [ScopedRole(Role.VIEWER, "*")]).user
    client = Client()
    client.force_login(person)
    page = client.get("/api/v1/docs/").content.decode()
    assert "swagger-ui" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "<style" not in page


def test_what_fits_the_document_never_makes_the_console_fail(
    document: dict[str, Any], program: Caller, live_server: LiveServer
) -> None:
    person = accounts.create_user(SYSTEM, "fuzzer", [ScopedRole(Role.ADMIN, "*")]).user
    token = create_token(actor_of(person), "fuzz", Role.ADMIN, "*", datetime.now(UTC) + timedelta(days=1)).raw
    schema = schemathesis.openapi.from_dict(document)
    tried: list[str] = []
    for result in schema.get_all_operations():
        operation = result.ok()
        # The caller would end its own access: deactivate itself, revoke its token or reset its password.
        if operation.path.startswith(("/api/v1/users/", "/api/v1/tokens/")) and operation.method.upper() != "GET":
            continue

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def survives(case: schemathesis.Case) -> None:
            if "topic" in case.path_parameters:
                case.path_parameters["topic"] = TOPIC
            response = case.call(base_url=live_server.url, headers={"Authorization": f"Bearer {token}"})
            assert response.status_code < 500, (case.as_curl_command(), response.content)
            if response.status_code >= 400:
                kind = response.headers["content-type"][0]
                assert kind == "application/problem+json", (case.as_curl_command(), kind)

        survives()
        tried.append(operation.label)
    assert len(tried) > 30
