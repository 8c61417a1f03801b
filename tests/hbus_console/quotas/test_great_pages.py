"""Pages about thousands of policies and plans stay small, and lead to the rest."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.quotas.services.plans import PlanWanted, set_plan, set_plans
from hbus_console.quotas.suggesting import SUGGESTED
from hbus_console.quotas.views.plans import PLANS_LISTED
from hbus_console.teams.models import Team
from hbus_console.ui.rows import PAGE
from tests.hbus_console.quotas.conftest import MakePolicy
from tests.hbus_console.quotas.great import first_book

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
MOST_BYTES = 120_000


def _text(page: Client, path: str) -> str:
    answer = page.get(path)
    assert answer.status_code == 200, path
    assert len(answer.content) < MOST_BYTES, path
    return " ".join(answer.content.decode().split())


def test_thousands_of_policies_and_plans_weigh_no_more_than_a_page(
    team: Team, signed_in: Callable[..., Client]
) -> None:
    """Found by a stranger: a form for each row and all policies in each weighed 4 MB, all policies to try 150 kB."""
    first_book(team, 2_000, 10_000)
    page = signed_in(Role.ADMIN)
    with CaptureQueriesContext(connection) as asked:
        html = _text(page, "/quotas/plans/")
    assert len(asked) < 15
    assert html.count('name="plan"') == 2, "one in the sheet, one that narrows"
    assert html.count("data-fill-tenant=") == PAGE + 1
    assert "and 663 more" in html
    tried = _text(page, "/quotas/try/?policy=policy-01999")
    assert 'value="policy-01999"' in tried
    assert tried.count("<option") < SUGGESTED + 20


def test_the_policies_of_one_plan_are_paged_and_its_tenants_listed(
    team: Team, signed_in: Callable[..., Client]
) -> None:
    first_book(team, 2_000, 300)
    page = signed_in(Role.VIEWER)
    html = _text(page, "/quotas/plans/?plan=gold")
    assert "666 policies, 100 tenants" in html
    assert "tenant-000000" not in html, "bronze"
    seen, after = list[str](), ""
    for _ in range(7):
        html = _text(page, f"/quotas/plans/?plan=gold&policies_after={after}")
        seen += re.findall(r'href="/quotas/policies/([^/"]+)/"', html)
        further = re.search(r"policies_after=(policy-[0-9]+)\">Further", html)
        after = further[1] if further else ""
    assert after == ""
    assert (len(seen), len(set(seen))) == (666, 666)


def test_plans_beyond_the_list_are_counted_and_found(signed_in: Callable[..., Client]) -> None:
    many = PLANS_LISTED + 7
    set_plans(SYSTEM, [PlanWanted(f"t{n:03}", f"plan-{n:03}") for n in range(many)] + [PlanWanted("also", "plan-056")])
    page = signed_in(Role.VIEWER)
    html = _text(page, "/quotas/plans/")
    assert "7 further plans" in html
    assert html.index("plan-056") < html.index("plan-000"), "the one of most tenants first"
    options = page.get("/quotas/suggest/plans/?plan=AN-05").content.decode()
    assert re.findall(r'value="([^"]+)"', options) == [f"plan-{n:03}" for n in range(50, 57)]
    assert "no policy" in _text(page, "/quotas/plans/?plan=plan-056")


def test_what_is_written_is_suggested_to_who_may_see_it(
    make_policy: MakePolicy, signed_in: Callable[..., Client]
) -> None:
    for n in range(SUGGESTED + 5):
        make_policy(f"search-{n:02}", 5 + n)
    make_policy("merger", 7, tenant="globetrek", service="publish", resource="payroll.*", plan="secret")
    wide, narrow = signed_in(Role.VIEWER), signed_in(Role.VIEWER, "booking.*")
    found = wide.get("/quotas/suggest/policies/?policy=globe").content.decode()
    assert '<option value="merger">7/s · burst 7</option>' in found
    assert wide.get("/quotas/suggest/policies/").content.decode().count("<option") == SUGGESTED
    assert "merger" not in narrow.get("/quotas/suggest/policies/?policy=globe").content.decode()
    set_plan(SYSTEM, "globetrek", "gold")
    assert wide.get("/quotas/suggest/plans/?plan=").content.decode().count("<option") == 2
    assert narrow.get("/quotas/suggest/plans/?plan=").content.decode().strip().count("<option") == 0
