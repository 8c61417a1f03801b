"""What stands in a query is heeded or refused, never passed over."""

from __future__ import annotations

from typing import Any

import pytest

from hbus_console.access.acts import Role
from tests.hbus_console.api.conftest import Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)


@pytest.fixture
def call(program: Any) -> Caller:
    made: Caller = program(Role.ADMIN)
    return made


@pytest.mark.parametrize(
    ("address", "field", "said"),
    [
        ("topics?colour=red", "colour", "no parameter 'colour'"),
        ("topics/booking.created?verbose=1", "verbose", "no parameter 'verbose'"),
        ("topics?q=a&q=b", "q", "2 times"),
        ("topics?q=%00", "q", "NUL"),
        ("topics?limit=many", "limit", "no whole number"),
        ("topics?limit=", "limit", "no whole number"),
        ("topics?limit=0", "limit", "from 1 to 500"),
        ("topics?limit=501", "limit", "from 1 to 500"),
        ("topics?classification=secret", "classification", "Use one of public"),
        ("tokens?all=perhaps", "all", "Use true or false"),
        ("alerts?state=burning", "state", "Use one of"),
        ("alerts?severity=loud", "severity", "Use one of"),
        ("operations?state=odd", "state", "Use one of"),
        ("audit/export", "as", "as is needed"),
    ],
)
def test_what_is_not_understood_is_refused(call: Caller, address: str, field: str, said: str) -> None:
    answer = call("get", address)
    problem = answer.json()
    assert answer.status_code == 422, problem
    assert problem["field"] == field
    assert said.replace("no whole", "not a whole") in f"{problem['detail']} {problem['remedy']}"


def test_nothing_is_done_under_a_parameter_that_is_not_known(call: Caller) -> None:
    refused = call("post", "topics/booking.created/pause?dry_run=true", {"reason": "to see what would happen"})
    assert (refused.status_code, refused.json()["field"]) == (422, "dry_run")
    assert call("get", "topics/booking.created").json()["paused"] is False


def test_what_is_declared_is_taken(call: Caller) -> None:
    for address in ("topics?q=booking&limit=500&owner=", "tokens?all=true", "alerts?state=open&severity=info"):
        assert call("get", address).status_code == 200, address
    assert call("get", "topics?owner=Reservations").json()["results"][0]["name"] == "booking.created"
