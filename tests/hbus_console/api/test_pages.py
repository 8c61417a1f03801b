"""Every list is answered in one shape."""

from __future__ import annotations

from typing import Any

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


def test_each_is_answered_so(document: dict[str, Any], program: Any) -> None:
    call: Caller = program(Role.ADMIN)
    plain = [path for path, shape in _answers(document).items() if "results" in shape.get("properties", {})]
    asked = [path.removeprefix("/api/v1/").replace("{topic}", "booking.created") for path in plain]
    wrong = []
    for path in (path for path in asked if "{" not in path and path != "evidence"):
        answer = call("get", path)
        if answer.status_code != 200 or not answer.json().keys() >= SHAPE:
            wrong.append((path, answer.status_code))
    assert wrong == []
