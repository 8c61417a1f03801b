"""Policies: made with an owner, changed with a version and a book, tried, restored and deleted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from engine.core.errors import BadInput, Conflict, NotThere
from engine.quota.terms import Name
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.quotas.models import PolicyVersion, QuotaBook, QuotaPolicy
from hbus_console.quotas.reports import GONE_AFTER_MS, NodeReport, keep_report
from hbus_console.quotas.services.books import newest_book
from hbus_console.quotas.services.differences import difference
from hbus_console.quotas.services.draft import PolicyDraft
from hbus_console.quotas.services.plans import set_plan
from hbus_console.quotas.services.policies import (
    change_policy,
    create_policy,
    delete_policy,
    promote_trial,
    restore_policy,
)
from hbus_console.quotas.services.rolling_back import roll_back
from hbus_console.teams.models import Team
from tests.hbus_console.quotas.conftest import MakePolicy
from tests.hbus_console.topics.conftest import EDITOR, GOVERNOR, actor

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def _limit(tenant: str, service: str = "publish", resource: str = "booking.created") -> float:
    book = newest_book()
    assert book is not None
    return book.resolve(Name(service, resource, tenant), 0).limit


def test_a_policy_has_an_owner_and_is_in_the_next_book(make_policy: MakePolicy, told: Callable[[], list[str]]) -> None:
    make_policy("everyone", 2000, 4000)
    assert _limit("anybody") == 2000
    assert told() == ["team.create", "quota.create"][-1:]
    assert [(book.number, AuditEntry.objects.get(seq=book.audit_seq).action) for book in QuotaBook.objects.all()] == [
        (1, "quota.create")
    ]


def test_without_an_owner_none_is_made(db: None) -> None:
    with pytest.raises(BadInput, match="no team") as refused:
        create_policy(SYSTEM, PolicyDraft("everyone", "nobody", 1.0, 1.0))
    assert refused.value.field == "owner"
    assert not QuotaBook.objects.exists()


def test_who_governs_a_part_sets_no_limit_for_all(team: Team) -> None:
    for who in (EDITOR, actor(Role.GOVERNOR, "booking.*")):
        with pytest.raises(Forbidden):
            create_policy(who, PolicyDraft("booking.all", team.name, 0.0))
    create_policy(GOVERNOR, PolicyDraft("booking.all", team.name, 0.0))


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"limit": -1}, "limit"),
        ({"limit": 2, "burst": 0.5}, "burst"),
        ({"zone": "Europe/Nowhere"}, "zone"),
        ({"overrides": "soon 3"}, "overrides"),
        ({"canary_percent": 10, "canary_limit": 5, "canary_burst": 0}, "canary_burst"),
        ({"canary_percent": 10, "canary_limit": 5, "canary_burst": 5, "whose": "together"}, "canary_percent"),
        ({"on_loss": "hope"}, "on_loss"),
        ({"fallback_percent": 101}, "fallback_percent"),
        ({"weight": 0}, "weight"),
    ],
)
def test_what_does_not_fit_is_told_with_its_field(team: Team, more: dict[str, Any], field: str) -> None:
    values = {"name": "everyone", "owner": team.name, "limit": 10.0, "burst": 10.0} | more
    with pytest.raises(BadInput) as refused:
        create_policy(SYSTEM, PolicyDraft(**values))
    assert refused.value.field == field
    assert not QuotaPolicy.objects.exists()


def test_a_change_makes_a_version_and_a_book(make_policy: MakePolicy) -> None:
    make_policy("everyone", 2000)
    changed = change_policy(SYSTEM, "everyone", {"limit": 50.0}, version=1)
    assert (changed.version, _limit("anybody")) == (2, 50)
    assert list(PolicyVersion.objects.values_list("number", "since", "until")) == [(2, 2, None), (1, 1, 2)]
    with pytest.raises(Conflict):
        change_policy(SYSTEM, "everyone", {"limit": 60.0}, version=1)
    change_policy(SYSTEM, "everyone", {"limit": 50.0})
    assert QuotaBook.objects.count() == 2


def test_a_tenant_stands_before_a_plan_before_all(make_policy: MakePolicy) -> None:
    make_policy("everyone", 2000)
    make_policy("partner", 50, plan="partner")
    make_policy("globetrek", 40, tenant="globetrek")
    set_plan(SYSTEM, "globetrek", "partner")
    set_plan(SYSTEM, "stayfinder", "partner")
    assert [_limit(tenant) for tenant in ("globetrek", "stayfinder", "somebody")] == [40, 50, 2000]
    set_plan(SYSTEM, "stayfinder", "")
    assert _limit("stayfinder") == 2000


def test_a_trial_holds_for_its_share_of_the_tenants_until_it_is_promoted(make_policy: MakePolicy) -> None:
    make_policy("everyone", 100, canary_percent=20, canary_limit=50.0, canary_burst=50.0)
    tenants = [f"tenant-{number}" for number in range(1_000)]
    tried = [tenant for tenant in tenants if _limit(tenant) == 50]
    assert 150 < len(tried) < 250
    change_policy(SYSTEM, "everyone", {"canary_percent": 40})
    assert set(tried) < {tenant for tenant in tenants if _limit(tenant) == 50}
    promote_trial(SYSTEM, "everyone", "it went well")
    assert {_limit(tenant) for tenant in tenants} == {50}
    with pytest.raises(Conflict, match="Nothing is tried"):
        promote_trial(SYSTEM, "everyone", "again")


def test_a_shadow_holds_nobody(make_policy: MakePolicy) -> None:
    make_policy("everyone", 1, shadow=True)
    book = newest_book()
    assert book is not None
    assert not book.resolve(Name("publish", "booking.created", "anybody"), 0).chain
    assert book.resolve(Name("publish", "booking.created", "anybody", shadow=True), 0).limit == 1


def test_a_version_is_restored_as_a_new_one(make_policy: MakePolicy) -> None:
    make_policy("everyone", 2000)
    change_policy(SYSTEM, "everyone", {"limit": 50.0})
    assert restore_policy(SYSTEM, "everyone", 1, "too narrow").version == 3
    assert _limit("anybody") == 2000
    with pytest.raises(NotThere):
        restore_policy(SYSTEM, "everyone", 9, "too narrow")


def test_a_deleted_one_holds_nobody_and_one_made_anew_goes_on_from_it(make_policy: MakePolicy) -> None:
    make_policy("everyone", 2000)
    with pytest.raises(BadInput):
        delete_policy(SYSTEM, "everyone", "every", "over")
    delete_policy(SYSTEM, "everyone", "everyone", "over")
    assert _limit("anybody") == float("inf")
    assert make_policy("everyone", 1000).version == 2


def test_all_goes_back_to_an_earlier_book_in_one_act(make_policy: MakePolicy) -> None:
    make_policy("everyone", 2000)
    make_policy("partner", 50, plan="partner")
    set_plan(SYSTEM, "globetrek", "partner")
    (was,) = QuotaBook.objects.order_by("-number").values_list("number", flat=True)[:1]
    change_policy(SYSTEM, "everyone", {"limit": 1.0})
    delete_policy(SYSTEM, "partner", "partner", "over")
    make_policy("late", 7)
    set_plan(SYSTEM, "globetrek", "gold")
    now = roll_back(SYSTEM, was, "the sale went wrong")
    assert not difference(was, now)
    assert [_limit("globetrek"), _limit("anybody")] == [50, 2000]
    assert sorted(QuotaPolicy.objects.values_list("name", "version")) == [("everyone", 3), ("partner", 2)]
    entry = AuditEntry.objects.get(action="quota.roll_back")
    assert {"policy": "late", "settings": None} in entry.after["policies"]
    assert entry.before["plans"] == [{"tenant": "globetrek", "plan": "gold"}]
    assert roll_back(SYSTEM, was, "again") == now


def test_what_differs_between_two_books_is_told_by_name(make_policy: MakePolicy) -> None:
    make_policy("everyone", 2000)
    change_policy(SYSTEM, "everyone", {"limit": 50.0})
    make_policy("partner", 50, plan="partner")
    found = difference(1, 3)
    was, is_now = found.policies["everyone"]
    assert was is not None
    assert is_now is not None
    assert (was["limit"], is_now["limit"]) == (2000, 50)
    assert found.policies["partner"][0] is None


def test_no_override_makes_the_rules_of_all_unreadable(make_policy: MakePolicy) -> None:
    """Found by a stranger: 400 digits were taken for a limit without end, which no node could read."""
    make_policy("other", 1)
    for line in (
        f"2020-01-01T00:00..2030-01-01T00:00 {'9' * 400}",
        "2020-01-01T00:00..2030-01-01T00:00 1 burst 1000000000001",
    ):
        with pytest.raises(BadInput) as refused:
            make_policy("broken", 1, overrides=line)
        assert refused.value.field == "overrides"
    # In proportion the burst would be beyond every bound.
    make_policy("proportion", 0.001, 1e12, overrides="2020-01-01T00:00..2030-01-01T00:00 1000000000000")
    book = newest_book()
    assert book is not None
    assert {rule.id for rule in book.rules} == {"other", "proportion"}


def test_a_book_says_how_many_nodes_there_may_be(make_policy: MakePolicy) -> None:
    now_ms = round(time.time() * 1000)
    for number in range(5):
        keep_report(f"n{number}", now_ms, NodeReport(1, 0, ()))
    keep_report("gone", now_ms - 2 * GONE_AFTER_MS, NodeReport(1, 0, ()))
    make_policy("any", 80, fallback_percent=10)
    book = newest_book()
    assert book is not None
    assert book.nodes == 8
    assert book.resolve(Name("s", "r", "t"), 0).fallback == pytest.approx(1)


@pytest.mark.parametrize("period", ["day", "month"])
def test_less_than_a_token_in_a_period_is_refused(make_policy: MakePolicy, period: str) -> None:
    with pytest.raises(BadInput) as refused:
        make_policy("partners", 0.5, period=period)
    assert "never there" in str(refused.value)
    assert make_policy("nothing", 0, period=period).limit == 0
