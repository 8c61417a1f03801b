"""What the pages of quotas cost does not grow with what they do not show."""

from __future__ import annotations

import time

import pytest
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.costs import calls, database_work
from tests.hbus_console.access_world import person
from tests.hbus_console.quotas import at_scale
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
