"""Advice is made from what each tenant asked in each minute of the last day, as far as one may see it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from engine.core.clock import ManualClock
from engine.quota.advising import advise
from hbus_console.access.permissions import GLOBAL
from hbus_console.accounts.models import User
from hbus_console.quotas import advising
from hbus_console.quotas.advising import advice_for
from hbus_console.quotas.models import QuotaPolicy
from hbus_console.quotas.services.rules import rules_of
from hbus_console.quotas.views import advice as advice_view
from hbus_console.teams.models import Team
from tests.hbus_console.quotas.booked import book_one
from tests.hbus_console.quotas.test_foreseeing import POLICY

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

NOW_MS = ManualClock().now_ms()
NOW = NOW_MS // 60_000 * 60


@pytest.fixture
def asked() -> dict[str, dict[int, int]]:
    """Also what was refused was asked; what is older than a day does not count."""
    came = {name: {NOW - 60 * number: tokens + number % 7 for number in range(30)} for name, tokens in _TENANTS}
    for name, minutes in came.items():
        for minute, tokens in minutes.items():
            book_one(minute, ("search", "hotels", name), tokens - 2, 2)
    book_one(NOW - 90_000, ("search", "hotels", "ada"), 100_000)
    return came


_TENANTS = (("ada", 60), ("bob", 300), ("cleo", 10))


def told(**more: Any) -> advising.PolicyAdvice:
    return advice_for({**POLICY, **more}, NOW_MS, (GLOBAL,))


def test_each_tenant_is_reckoned_with_by_itself(asked: dict[str, dict[int, int]]) -> None:
    found = told()
    (rule, *_) = rules_of("tried", POLICY, NOW_MS)
    assert found.rates == advise(rule, list(asked.values()))
    assert (found.tenants, found.unseen) == (3, 0)
    assert found.rates is not None
    assert found.rates.asked == sum(sum(minutes.values()) for minutes in asked.values())


def test_all_together_need_what_all_ask(asked: dict[str, dict[int, int]]) -> None:
    alone, together = told().rates, told(whose="together").rates
    assert alone is not None
    assert together is not None
    assert together.recommended.limit > alone.recommended.limit


def test_the_busiest_are_looked_at_and_the_rest_is_told(
    asked: dict[str, dict[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = told().rates
    monkeypatch.setattr(advising, "MOST_TENANTS", 2)
    found = told()
    assert (found.tenants, found.unseen) == (2, 1)
    assert found.rates is not None
    assert whole is not None
    assert found.rates.recommended.limit == whole.recommended.limit


def test_what_it_does_not_cover_is_left_out(asked: dict[str, dict[int, int]]) -> None:
    assert told(service="billing").rates is None
    assert told(tenant="ada").tenants == 1


def test_of_what_one_may_not_see_nothing_is_told(asked: dict[str, dict[int, int]]) -> None:
    assert advice_for(POLICY, NOW_MS, ("booking.*",)).rates is None


def test_the_page_shows_the_curve(client: Client) -> None:
    user = User.objects.create_user("vic", password="x")
    user.grants.create(role="viewer", scope="*")
    client.force_login(user)
    policy = QuotaPolicy.objects.create(name="search", team=Team.objects.create(name="Search"), limit=1, burst=1)
    address = f"/quotas/policies/{policy.name}/advice/"
    assert "Nothing was asked" in client.get(address).content.decode()
    QuotaPolicy.objects.update(period="day")
    assert "No rate" in client.get(address).content.decode()


def test_the_page_says_what_is_enough(
    client: Client, asked: dict[str, dict[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advice_view, "clock", ManualClock(NOW_MS))
    user = User.objects.create_user("vic", password="x")
    user.grants.create(role="viewer", scope="*")
    client.force_login(user)
    QuotaPolicy.objects.create(name="search", team=Team.objects.create(name="Search"), limit=1, burst=1)
    shown = client.get("/quotas/policies/search/advice/").content.decode()
    assert "refuses less than 0.1 % of what was asked" in shown
    assert "3 tenants, each by itself" in shown
    assert "enough" in shown
