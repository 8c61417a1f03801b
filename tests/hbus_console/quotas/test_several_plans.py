"""The plans of several tenants, set in one act: one book, one small audit entry, all of them or none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from engine.core.errors import BadInput
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.faults import faults_of
from hbus_console.quotas.models import QuotaBook, TenantPlan
from hbus_console.quotas.plan_lines import MOST_TOLD, by_line, read_lines
from hbus_console.quotas.services.books import newest_book
from hbus_console.quotas.services.differences import difference, digest
from hbus_console.quotas.services.plans import MOST_AT_ONCE, PlanWanted, set_plan, set_plans
from hbus_console.teams.models import Team
from tests.hbus_console.quotas.great import first_book
from tests.hbus_console.topics.conftest import GOVERNOR, OPERATOR, Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def _have() -> dict[str, str]:
    return dict(TenantPlan.objects.filter(until__isnull=True).values_list("tenant", "plan"))


def _faults(refused: pytest.ExceptionInfo[BadInput]) -> dict[str, str]:
    return {each.field: each.what for each in faults_of(refused.value)}


def test_a_thousand_are_set_in_one_book_with_one_small_entry(team: Team) -> None:
    """One by one each wrote a book: 750 kB, with ten thousand plans."""
    first_book(team, 100, 10_000)
    wanted = [PlanWanted(f"tenant-{n:06}", "platinum") for n in range(MOST_AT_ONCE)]
    with CaptureQueriesContext(connection) as asked:
        done = set_plans(GOVERNOR, wanted, "a new contract")
    assert done == (2, 1_000, 0)
    assert len(asked) < 40
    assert QuotaBook.objects.count() == 2
    entry = AuditEntry.objects.get(action="quota.plans")
    assert len(json.dumps([entry.before, entry.after])) < 4_000
    assert (entry.after["plans_changed"], entry.after["told_whole"]) == (1_000, "/quotas/versions/2/")
    assert entry.after["sha256"] == digest(difference(1, 2))
    book = newest_book()
    assert book is not None
    assert sum(plan == "platinum" for plan in book.plans.values()) == 1_000
    again = set_plans(GOVERNOR, wanted, "a new contract")
    assert again == (2, 0, 1_000)
    assert AuditEntry.objects.filter(action="quota.plans").count() == 1


def test_who_has_theirs_is_left_alone_and_empty_takes_it_away() -> None:
    for tenant in ("globetrek", "stayfinder"):
        set_plan(SYSTEM, tenant, "gold")
    wanted = [PlanWanted("globetrek", "gold"), PlanWanted("stayfinder", ""), PlanWanted(" late ", "silver ")]
    assert set_plans(SYSTEM, wanted) == (3, 2, 1)
    assert _have() == {"globetrek": "gold", "late": "silver"}
    assert TenantPlan.objects.get(tenant="globetrek").since == 1


def test_each_bad_entry_is_named_and_nothing_is_done() -> None:
    wanted = [
        PlanWanted("stayfinder", "x" * 101),
        PlanWanted("globetrek", "gold"),
        PlanWanted("", "gold"),
        PlanWanted(" globetrek ", "silver"),
        PlanWanted("a\u2028b", "gold"),
    ]
    with pytest.raises(BadInput) as refused:
        set_plans(SYSTEM, wanted, "y" * 301)
    faults = _faults(refused)
    assert set(faults) == {"plans[2].tenant", "plans[0].plan", "plans[3].tenant", "plans[4].tenant", "reason"}
    assert faults["plans[3].tenant"] == "globetrek stands there twice, first as plans[1]."
    assert (_have(), QuotaBook.objects.count()) == ({}, 0)


@pytest.mark.parametrize("number", [0, MOST_AT_ONCE + 1])
def test_too_many_and_none_are_refused(number: int) -> None:
    with pytest.raises(
        BadInput, match="1 to 1,000 tenants, not of 1,001" if number else "No tenant is named"
    ) as refused:
        set_plans(SYSTEM, [PlanWanted(f"t{n}", "gold") for n in range(number)])
    assert refused.value.field == "plans"


def test_it_takes_who_may_set_plans() -> None:
    with pytest.raises(Forbidden):
        set_plans(OPERATOR, [PlanWanted("globetrek", "gold")])


def test_over_http_a_repeat_does_nothing_twice_and_entries_at_fault_are_named(calling: Callable[..., Caller]) -> None:
    call = calling(Role.GOVERNOR)
    body = {"plans": [{"tenant": "batch", "plan": "gold"}, {"tenant": "ada/nightly", "plan": "gold"}]}
    answers = [call("POST", "quota/plans", body, **{"Idempotency-Key": "k"}).json() for _ in range(2)]
    assert answers == [{"book": 1, "changed": 2, "unchanged": 0}] * 2
    assert call("POST", "quota/plans", body).json() == {"book": 1, "changed": 0, "unchanged": 2}
    told = call("GET", "quota/plans").json()["results"]
    assert [each["tenant"] for each in told] == ["ada/nightly", "batch"]
    assert call("PUT", "quota/plans/batch", {"plan": ""}).status_code == 200, "a tenant may be called like that"

    def refused(plans: list[Any]) -> tuple[int, str]:
        answer = call("POST", "quota/plans", {"plans": plans})
        return answer.status_code, answer.json()["field"]

    good = {"tenant": "late", "plan": "gold"}
    assert refused([good, {"tenant": " ", "plan": "x"}]) == (422, "plans[1].tenant")
    assert refused([good, {"tenant": "x", "plan": 7}]) == (422, "plans[1].plan")
    assert refused([good, {"plan": "x"}]) == (422, "plans[1].tenant")
    assert refused([]) == (422, "plans")
    assert "late" not in _have()


def test_lines_are_read_by_their_last_word_or_a_tab() -> None:
    found = read_lines("globetrek gold\n\n  ada/nightly   silver \nStay Finder Ltd\tall inclusive\r\nlate -\nBig gold")
    assert found.wanted == [
        ("globetrek", "gold"),
        ("ada/nightly", "silver"),
        ("Stay Finder Ltd", "all inclusive"),
        ("late", ""),
        ("Big", "gold"),
    ]
    assert found.numbers == [1, 3, 4, 5, 6]


def test_lines_at_fault_are_told_by_their_numbers() -> None:
    with pytest.raises(BadInput) as refused:
        read_lines("globetrek gold\nalone\na\tb\tc")
    told = by_line(refused.value, [])
    assert told["lines"].startswith("Line 2: It does not name one tenant and one plan.")
    assert "Line 3: " in told["lines"]
    with pytest.raises(BadInput) as refused:
        read_lines("\n".join(["alone"] * (MOST_TOLD + 3)))
    assert by_line(refused.value, [])["lines"].endswith("So do 3 more lines not fit.")


def test_the_page_sets_them_and_keeps_what_was_typed_where_it_refuses(signed_in: Callable[..., Client]) -> None:
    page = signed_in(Role.GOVERNOR)
    address = "/quotas/plans/several/"
    assert address in page.get("/quotas/plans/").content.decode()
    assert page.get(address).status_code == 200
    typed = "globetrek gold\n\nstayfinder gold\nglobetrek silver"
    refused = page.post(address, {"lines": typed.replace("\n", "\r\n")})
    html = refused.content.decode()
    assert refused.status_code == 422
    assert "Line 4: globetrek stands there twice, first as line 1." in html
    assert typed in html
    assert _have() == {}
    assert "No tenant is named" in page.post(address, {"lines": " "}).content.decode()
    done = page.post(address, {"lines": "globetrek gold\nstayfinder gold", "reason": "a new contract"}, follow=True)
    assert "2 tenants have another plan in version 1" in done.content.decode()
    assert _have() == {"globetrek": "gold", "stayfinder": "gold"}
    again = page.post(address, {"lines": "globetrek gold"}, follow=True)
    assert "Nothing was done" in again.content.decode()
