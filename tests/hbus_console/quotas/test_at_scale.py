"""What the pages of quotas cost does not grow with what they do not show."""

from __future__ import annotations

import time

import pytest
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from hbus_console.access.permissions import GLOBAL
from hbus_console.quotas.foreseeing import preview
from tests.costs import calls, database_work
from tests.hbus_console.access_world import person
from tests.hbus_console.quotas import at_scale
from tests.hbus_console.quotas.test_foreseeing import POLICY
from tests.plans import measured

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
NOW_MS = round(time.time() * 1000)


@pytest.fixture
def page() -> Client:
    client = Client()
    client.force_login(person("ada", "admin"))
    return client


def _got(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200, answer.content[:500]


def test_a_list_of_thousands_costs_hardly_more_than_one_of_a_page(page: Client) -> None:
    """Whatever a page does with all policies it does with few columns of them, and in as many queries."""
    costs, queries = [], []
    for count in (200, 1_200):
        at_scale.policies(count, tenants=500)
        _got(page, "/quotas/")
        with CaptureQueriesContext(connections["default"]) as asked, calls() as cost:
            _got(page, "/quotas/")
        costs.append(cost.units)
        queries.append(len(asked))
        at_scale.no_policies()
    assert queries[0] == queries[1]
    assert (costs[1] - costs[0]) / 1_000 <= 30


def test_what_is_of_late_is_found_among_a_day_of_many_limiters(page: Client) -> None:
    """With statistics SQLite would look for five minutes at each limiter that there ever was."""
    at_scale.policies(20, tenants=20)
    at_scale.uses(40_000, tenants=400, now_ms=NOW_MS)
    measured("ledger")
    _got(page, "/quotas/")
    with database_work("ledger") as cost:
        _got(page, "/quotas/")
    cost.at_most(60_000, "of 40,000 uses")


@pytest.mark.parametrize("of", ["", "&service=publish&resource=hotels.rates&tenant=tenant-00007"])
def test_a_chart_of_a_day_reads_quarters(page: Client, of: str) -> None:
    at_scale.policies(20, tenants=20)
    made = at_scale.uses(40_000, tenants=400, now_ms=NOW_MS)
    measured("ledger")
    path = f"/quotas/chart/?policy=everyone&range=24h{of}"
    _got(page, path)
    with CaptureQueriesContext(connections["ledger"]) as asked:
        _got(page, path)
    assert len(asked) == 2
    with database_work("ledger") as cost:
        _got(page, path)
    # To read all minutes takes some ten for each.
    cost.at_most(5_000 if of else 2 * made, f"of {made:,} uses")


def test_a_preview_of_one_tenant_does_not_read_everybodys_minutes(page: Client) -> None:
    at_scale.policies(20, tenants=20)
    made = at_scale.uses(40_000, tenants=400, now_ms=NOW_MS)
    measured("ledger")
    for more, most in (({"tenant": "tenant-00007"}, 2 * made), ({"period": "day"}, 4 * made)):
        values = {**POLICY, **more}
        preview(values, NOW_MS, (GLOBAL,))
        with CaptureQueriesContext(connections["ledger"]) as asked:
            preview(values, NOW_MS, (GLOBAL,))
        assert len(asked) <= 8
        with database_work("ledger") as cost:
            preview(values, NOW_MS, (GLOBAL,))
        cost.at_most(most, f"of {made:,} uses, {more}")
