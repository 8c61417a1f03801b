"""Policies, books and plans over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hbus_console.access.acts import Role
from hbus_console.quotas.models import QuotaBook
from hbus_console.teams.models import Team
from tests.hbus_console.topics.conftest import Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
NEW = {"name": "everyone", "owner": "Reservations", "limit": 100.0, "burst": 200.0, "reason": "new"}
POLICY = "quota/policies/everyone"


@pytest.fixture
def call(calling: Callable[..., Caller], team: Team) -> Caller:
    return calling(Role.GOVERNOR)


def _ok(answer: Any, code: int = 200) -> Any:
    assert answer.status_code == code, answer.content
    return answer.json()


def test_a_policys_whole_life(call: Caller) -> None:
    made = _ok(call("POST", "quota/policies", NEW), 201)
    assert (made["owner"], made["limit"], made["revision"]) == ("Reservations", 100.0, 1)
    seen = call("GET", POLICY)
    tag = {"If-Match": seen.headers["ETag"]}
    changed = call("PATCH", POLICY, {"limit": 50.0}, **tag)
    assert (_ok(changed)["limit"], changed.headers["ETag"]) == (50.0, '"2"')
    assert call("PATCH", POLICY, {"limit": 60.0}, **tag).status_code == 412
    assert [each["number"] for each in _ok(call("GET", f"{POLICY}/versions"))["results"]] == [2, 1]
    restored = _ok(call("POST", f"{POLICY}/versions/1/restore", {"reason": "it was better"}))
    assert (restored["limit"], restored["revision"]) == (100.0, 3)
    assert call("POST", f"{POLICY}/promote", {"reason": "why"}).status_code == 409
    _ok(call("PATCH", POLICY, {"canary_percent": 10, "canary_limit": 70.0, "canary_burst": 70.0}))
    assert _ok(call("POST", f"{POLICY}/promote", {"reason": "it went well"}))["limit"] == 70.0
    gone = {"typed_name": "everyone", "reason": "old"}
    assert call("DELETE", POLICY, gone).status_code == 204
    assert call("GET", POLICY).status_code == 404
    assert len(_ok(call("GET", f"{POLICY}/versions"))["results"]) == 5
    assert call("GET", "quota/policies/nothing/versions").status_code == 404


def test_policies_are_found_by_owner_and_text(call: Caller) -> None:
    _ok(call("POST", "quota/policies", NEW), 201)
    _ok(call("POST", "quota/policies", {**NEW, "name": "search", "description": "Availability"}), 201)
    _ok(call("PATCH", POLICY, {"owner": ""}))

    def found(query: str) -> list[str]:
        return [each["name"] for each in _ok(call("GET", f"quota/policies?{query}"))["results"]]

    assert found("") == ["everyone", "search"]
    assert found("owner=") == ["everyone"]
    assert found("owner=Reservations") == found("q=avail") == ["search"]


@pytest.mark.parametrize(("more", "field"), [({"burst": 0.5, "limit": 2.0}, "burst"), ({"zone": "Nowhere"}, "zone")])
def test_what_does_not_fit_is_refused_with_its_field(call: Caller, more: dict[str, Any], field: str) -> None:
    answer = call("POST", "quota/policies", {**NEW, **more})
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_a_repeat_makes_nothing_twice(call: Caller) -> None:
    first, again = (call("POST", "quota/policies", NEW, **{"Idempotency-Key": "k"}) for _ in range(2))
    assert _ok(first, 201) == _ok(again, 201)
    assert QuotaBook.objects.count() == 1


def test_books_differ_and_are_gone_back_to(call: Caller) -> None:
    _ok(call("POST", "quota/policies", NEW), 201)
    _ok(call("PATCH", POLICY, {"limit": 50.0}))
    assert _ok(call("PUT", "quota/plans/ada/nightly", {"plan": "gold"})) == {"tenant": "ada/nightly", "plan": "gold"}
    assert [each["number"] for each in _ok(call("GET", "quota/books"))["results"]] == [3, 2, 1]
    told = _ok(call("GET", "quota/books/difference?older=1&newer=2"))
    (policy,) = told["policies"]
    assert (policy["older"]["limit"], policy["newer"]["limit"], told["plans"]) == (100.0, 50.0, [])
    told = _ok(call("GET", "quota/books/difference?older=2"))
    assert told["plans"] == [{"tenant": "ada/nightly", "older": "", "newer": "gold"}]
    assert told["policies"] == []
    missing = call("GET", "quota/books/difference?older=9")
    assert (missing.status_code, missing.json()["field"]) == (404, "older")
    assert _ok(call("POST", "quota/books/1/roll-back", {"reason": "it was better"})) == {"number": 4}
    assert _ok(call("GET", POLICY))["limit"] == 100.0
    assert _ok(call("POST", "quota/books/1/roll-back", {"reason": "again"})) == {"number": 4}
    assert call("POST", "quota/books/9/roll-back", {"reason": "why"}).status_code == 404


def test_plans_are_listed_and_taken_away(call: Caller) -> None:
    for tenant, plan in (("globetrek", "gold"), ("stayfinder", "silver")):
        _ok(call("PUT", f"quota/plans/{tenant}", {"plan": plan}))
    assert _ok(call("GET", "quota/plans?plan=gold"))["results"] == [{"tenant": "globetrek", "plan": "gold"}]
    _ok(call("PUT", "quota/plans/globetrek", {"plan": ""}))
    assert [each["tenant"] for each in _ok(call("GET", "quota/plans"))["results"]] == ["stayfinder"]
