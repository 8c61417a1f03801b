"""PostgreSQL keeps no NUL. What holds one is refused for good where it comes in, and nobody is told to try again."""

from __future__ import annotations

import re
from typing import Any

import pytest
from drf_spectacular.generators import SchemaGenerator

from hbus_console.access.acts import Role
from hbus_console.schemas.models import SchemaVersion
from tests.hbus_console.api.conftest import TOPIC, Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
JOB = {
    "name": "close-of-day",
    "owner": "Reservations",
    "kind": "http",
    "target": "https://1.1.1.1/close",
    "schedule": "0 3 * * *",
}
WITH_NUL = {"a": [{"b": "x\0y"}]}


@pytest.fixture
def call(program: Any) -> Caller:
    made: Caller = program(Role.ADMIN)
    return made


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("post", "jobs", {**JOB, "name": "other", "parameters": WITH_NUL}, "parameters"),
        ("post", "jobs", {**JOB, "name": "other", "options": {"headers": WITH_NUL}}, "options"),
        ("post", "jobs", {**JOB, "name": "other", "parameters_schema": {"title": "x\0"}}, "parameters_schema"),
        ("patch", "jobs/close-of-day", {"parameters": {"x\0": 1}}, "parameters"),
        ("post", "jobs/close-of-day/trigger", {"parameters": WITH_NUL, "reason": "why"}, "parameters"),
        ("post", "jobs/close-of-day/trigger/dry-run", {"parameters": WITH_NUL}, "parameters"),
        ("post", f"topics/{TOPIC}/schemas", {"body": {"type": "object", "title": "x\0"}}, "body"),
        ("post", f"topics/{TOPIC}/schemas/check", {"body": {"type": "object", "title": "x\0"}}, "body"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_it_is_refused_at_its_field(call: Caller, method: str, path: str, body: dict[str, Any], field: str) -> None:
    assert call("post", "jobs", JOB).status_code == 201
    answer = call(method, path, body)
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.content
    assert "U+0000" in answer.json()["detail"]
    assert not SchemaVersion.objects.exists()


def test_no_address_is_answered_as_if_the_database_were_away(call: Caller) -> None:
    document = SchemaGenerator(api_version="v1").get_schema(public=True)  # type: ignore[no-untyped-call]
    wrong, asked = {}, 0
    for path, methods in document["paths"].items():
        if "get" not in methods or "{" not in path:
            continue
        named = re.sub(r"\{\w*id\}|\{(?:version|seq|number)\}", "1", path.removeprefix("/api/v1/"))
        asked += 1
        answer = call("get", re.sub(r"\{\w+\}", "a%00b", named))
        if answer.status_code >= 500:
            wrong[path] = answer.status_code
    assert asked > 15
    assert wrong == {}


def test_a_team_that_is_looked_for_by_such_a_name_is_no_trouble_of_the_database(call: Caller) -> None:
    assert call("post", "jobs", {**JOB, "owner": "a\0b"}).status_code == 422


@pytest.mark.parametrize("page", ["/jobs/?q=%00", "/jobs/a%00b/", "/topics/?q=%00", "/audit/?q=%00"])
def test_nor_is_a_page(admin_client: Any, installation: None, page: str) -> None:
    assert admin_client.get(page).status_code < 500
