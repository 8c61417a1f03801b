"""Every list is answered in one shape."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import urlencode

import pytest
from drf_spectacular.generators import SchemaGenerator

from hbus_console.access.acts import Role
from tests.hbus_console.api.conftest import Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)

SHAPE = {"next", "previous", "results"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    made: dict[str, Any] = SchemaGenerator(api_version="v1").get_schema(public=True)  # type: ignore[no-untyped-call]
    return made


def _answers(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Path of a GET → what it answers."""
    found = {}
    for path, methods in document["paths"].items():
        content = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        if "application/json" in content:
            found[path] = content["application/json"]["schema"]
    return found


def test_no_list_stands_bare_and_every_page_has_all_its_parts(document: dict[str, Any]) -> None:
    answers = _answers(document)
    assert [path for path, shape in answers.items() if shape.get("type") == "array"] == []
    pages = {path: shape for path, shape in answers.items() if "results" in shape.get("properties", {})}
    assert len(pages) > 15
    assert [path for path, shape in pages.items() if not set(shape["required"]) >= SHAPE] == []


def _cursor(place: str) -> str:
    return base64.b64encode(urlencode({"p": place}).encode()).decode()


@pytest.mark.parametrize("cursor", ["zzz", "ü", _cursor("a\x00b"), _cursor("-x-")])
def test_a_cursor_that_no_page_gave_is_refused_at_its_field(
    document: dict[str, Any], program: Any, cursor: str
) -> None:
    call: Caller = program(Role.ADMIN)
    address = urlencode({"cursor": cursor})
    wrong, asked = [], 0
    for path, methods in document["paths"].items():
        told = {each["name"] for each in methods.get("get", {}).get("parameters", ())}
        # Evidence is of something; a topic's log goes on from a position, which its store knows.
        if "cursor" not in told or "{" in path.replace("{topic}/schemas", "") or path.endswith("/evidence"):
            continue
        asked += 1
        answer = call("get", f"{path.removeprefix('/api/v1/').replace('{topic}', 'booking.created')}?{address}")
        # A place among names is any text.
        ordered_by_name = (
            path.rsplit("/", 1)[-1] in {"topics", "teams", "users", "jobs", "policies", "plans", "saved"}
            and "\x00" not in cursor
        )
        if ordered_by_name and cursor not in {"zzz", "ü"} and answer.status_code == 200:
            continue
        if (answer.status_code, answer.json().get("field")) != (422, "cursor"):
            wrong.append((path, answer.status_code))
    assert asked >= 12
    assert wrong == []


def test_each_is_answered_so(document: dict[str, Any], program: Any) -> None:
    call: Caller = program(Role.ADMIN)
    plain = [path for path, shape in _answers(document).items() if "results" in shape.get("properties", {})]
    asked = [path.removeprefix("/api/v1/").replace("{topic}", "booking.created") for path in plain]
    wrong = []
    for path in (path for path in asked if "{" not in path and path not in ("evidence", "message/timeline")):
        answer = call("get", path)
        if answer.status_code != 200 or not answer.json().keys() >= SHAPE:
            wrong.append((path, answer.status_code))
    assert wrong == []
