"""Policies, books and plans over HTTP."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hbus_console.access.acts import Role
from hbus_console.quotas.models import QuotaPolicy
from hbus_console.teams.models import Team
from tests.hbus_console.quotas.conftest import MakePolicy
from tests.hbus_console.topics.conftest import Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def test_a_policy_is_made_read_changed_and_deleted(calling: Callable[..., Caller], team: Team) -> None:
    call = calling(Role.GOVERNOR)
    made = call("post", "quota-policies", {"name": "everyone", "owner": team.name, "limit": 2000, "burst": 4000})
    assert made.status_code == 201
    read = call("get", "quota-policies/everyone")
    assert (read.json()["limit"], read.json()["owner"], read["ETag"]) == (2000.0, team.name, '"1"')
    changed = call("patch", "quota-policies/everyone", {"limit": 50}, **{"If-Match": '"1"'})
    assert (changed.json()["limit"], changed.json()["version"]) == (50.0, 2)
    late = call("patch", "quota-policies/everyone", {"limit": 60}, **{"If-Match": '"1"'})
    assert late.status_code == 412
    versions = call("get", "quota-policies/everyone/versions").json()["results"]
    assert [(each["number"], each["since"], each["until"]) for each in versions] == [(2, 2, None), (1, 1, 2)]
    restored = call("post", "quota-policies/everyone/restore", {"number": 1, "reason": "too narrow"})
    assert restored.json()["limit"] == 2000.0
    gone = call("delete", "quota-policies/everyone", {"typed_name": "everyone", "reason": "over"})
    assert gone.status_code == 204
    assert call("get", "quota-policies").json()["results"] == []


def test_what_does_not_fit_names_each_field(calling: Callable[..., Caller], team: Team) -> None:
    answer = calling(Role.GOVERNOR)(
        "post", "quota-policies", {"name": "Every one", "owner": "nobody", "limit": -1, "zone": "Nowhere"}
    )
    assert answer.status_code == 422
    assert {each["field"] for each in answer.json()["errors"]} == {"name", "owner", "limit", "zone"}
    assert not QuotaPolicy.objects.exists()


def test_a_trial_is_promoted(calling: Callable[..., Caller], make_policy: MakePolicy) -> None:
    make_policy("everyone", 100, canary_percent=20, canary_limit=50.0, canary_burst=50.0)
    call = calling(Role.GOVERNOR)
    promoted = call("post", "quota-policies/everyone/promote", {"reason": "it went well"}).json()
    assert (promoted["limit"], promoted["canary_percent"]) == (50.0, 0)
    assert call("post", "quota-policies/everyone/promote", {"reason": "again"}).status_code == 409


def test_books_tell_what_differs_and_go_back(calling: Callable[..., Caller], make_policy: MakePolicy) -> None:
    make_policy("everyone", 100)
    call = calling(Role.GOVERNOR)
    call("put", "quota-plans/globetrek", {"plan": "partner"})
    call("patch", "quota-policies/everyone", {"limit": 5, "burst": 5})
    assert [each["number"] for each in call("get", "quota-books").json()["results"]] == [3, 2, 1]
    told = call("get", "quota-books/1/difference?to=3").json()
    assert told["plans"] == [{"tenant": "globetrek", "before": "", "after": "partner"}]
    (policy,) = told["policies"]
    assert (policy["before"]["limit"], policy["after"]["limit"]) == (100.0, 5.0)
    assert call("post", "quota-books/1/roll-back", {"reason": "the sale is over"}).json() == {"number": 4}
    assert call("get", "quota-policies/everyone").json()["limit"] == 100.0
    assert call("get", "quota-plans").json()["results"] == []
    assert call("get", "quota-books/9/difference").status_code == 404
    assert call("get", "quota-books/1/difference?to=x").status_code == 422


def test_a_tenant_has_one_plan(calling: Callable[..., Caller], db: None) -> None:
    call = calling(Role.GOVERNOR)
    for plan in ("silver", "gold"):
        assert call("put", "quota-plans/globetrek", {"plan": plan}).json() == {"tenant": "globetrek", "plan": plan}
    assert call("get", "quota-plans?plan=gold").json()["results"] == [{"tenant": "globetrek", "plan": "gold"}]
    assert call("get", "quota-plans?plan=silver").json()["results"] == []
