"""A preview is what each minute of the last day would have been, however it is read; and says what it left out."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random
from typing import Any

import pytest
from django.template.loader import render_to_string

from engine.core.clock import ManualClock
from engine.quota.preview import Foreseen, foresee
from engine.quota.terms import person_of
from engine.quota.uses import Used
from hbus_console.access.permissions import GLOBAL
from hbus_console.quotas import foreseeing
from hbus_console.quotas.foreseeing import PolicyPreview, preview
from hbus_console.quotas.models import UsesTrimmed
from hbus_console.quotas.services.rules import rules_of
from tests.hbus_console.quotas.booked import book, book_one

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

NOW_MS = ManualClock().now_ms()
NOW = NOW_MS // 60_000 * 60
TENANTS = ("ada", "ada/laptop", "ada/phone", "bob", "cleo", "dora", "")
POLICY: dict[str, Any] = {
    "description": "", "service": "*", "resource": "*", "tenant": "*", "plan": "", "whose": "each", "limit": 1.0,
    "burst": 40.0, "period": "", "zone": "Europe/Lisbon", "on_loss": "fallback", "fallback_percent": 10, "weight": 1.0,
    "floor": 0.0, "priority": 0, "shadow": False, "overrides": "", "canary_percent": 0, "canary_limit": 0.0,
    "canary_burst": 0.0,
}  # fmt: skip
Asked = dict[str, dict[int, float]]


def _day(seed: int) -> tuple[dict[str, Counter[int]], Counter[str]]:
    """What each tenant asked in each minute, and how much was refused; some of it before the day, which is left out."""
    random = Random(seed)
    asked: dict[str, Counter[int]] = defaultdict(Counter)
    lost = Counter[str]()
    for _ in range(200):
        minute = NOW - 60 * random.randrange(1_500)
        for tenant in random.sample(TENANTS[:-1], 2):
            few = tenant in ("cleo", "dora")
            used = Used(admitted=random.randrange(2 if few else 90), refused=0 if few else random.randrange(5))
            book(minute, {("publish", random.choice(["a", "b"]), tenant): used})
            if minute >= NOW - 86_400:
                asked[tenant][minute] += used.admitted + used.refused
                lost[tenant] += used.refused
    return asked, lost


def _by_hand(values: dict[str, Any], asked: dict[str, Counter[int]], whose: dict[str, str]) -> dict[str, Foreseen]:
    (rule, *_) = rules_of("tried", values, NOW_MS)
    came: dict[str, Counter[int]] = defaultdict(Counter)
    for tenant, minutes in asked.items():
        came[whose[tenant]].update(minutes)
    return {subject: foresee(rule, minutes) for subject, minutes in came.items()}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"limit": 0.2, "burst": 1.0},
        {"limit": 100.0, "burst": 5_000.0},
        {"period": "day", "limit": 900.0},
        {"period": "day", "limit": 900.0, "zone": "Asia/Kathmandu"},
        {"period": "month", "limit": 2_000.0},
        {"period": "at once", "limit": 2.0},
        {"whose": "together", "limit": 5.0},
        {"tenant": "ada/*"},
    ],
)
def test_a_preview_is_what_each_minute_would_have_been(more: dict[str, Any], seed: int) -> None:
    asked, lost = _day(seed)
    values = {**POLICY, **more}
    if "tenant" in more:
        asked = {tenant: minutes for tenant, minutes in asked.items() if tenant.startswith("ada/")}
    whose = {tenant: "" if "whose" in more else tenant if "tenant" in more else person_of(tenant) for tenant in asked}
    wanted = _by_hand(values, asked, whose)
    found = preview(values, NOW_MS, (GLOBAL,))
    assert found.total.asked == sum(each.asked for each in wanted.values())
    assert found.total.least == pytest.approx(sum(each.least for each in wanted.values()))
    assert found.total.most == pytest.approx(sum(each.most for each in wanted.values()))
    assert found.refused == sum(lost[tenant] for tenant in asked)
    touched = {subject: each for subject, each in wanted.items() if each.least < each.asked}
    assert {each.tenant: each.foreseen for each in found.tenants} == touched
    assert (found.touched, found.unlisted, found.unseen, found.since_ms) == (len(touched), 0, 0, None)


def test_who_cannot_have_been_refused_anything_is_counted_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foreseeing, "MOST_TENANTS", 2)
    for tenant, admitted in (("ada", 900), ("bob", 800), ("cleo", 700), ("dora", 40), ("emil", 1)):
        book_one(NOW - 3_600, ("publish", "a", tenant), admitted)
    found = preview(POLICY, NOW_MS, (GLOBAL,))
    # The two that asked most, and the two that asked no more than a bucket holds.
    assert found.total.asked == 900 + 800 + 40 + 1
    assert (found.touched, found.unseen) == (2, 1)
    assert "1 tenant of those that asked less is left out." in _shown(found)


def test_a_day_whose_minutes_were_trimmed_is_told_since_when_it_is() -> None:
    book_one(NOW - 50_000, ("publish", "a", "ada"), 900)
    book_one(NOW - 3_600, ("publish", "a", "ada"), 700)
    assert "It is what came since" not in _shown(preview(POLICY, NOW_MS, (GLOBAL,)))
    UsesTrimmed.objects.create(uses="ledger_quota_use", since=NOW - 7_200)
    for more in ({}, {"whose": "together"}, {"period": "day", "limit": 10.0}):
        found = preview({**POLICY, **more}, NOW_MS, (GLOBAL,))
        assert found.total.asked == 700
        assert found.since_ms == (NOW - 7_200) * 1000
        assert "It is what came since" in _shown(found)
        assert "5,000,000 rows at most" in _shown(found)


def _shown(found: PolicyPreview) -> str:
    return " ".join(render_to_string("quotas/_preview.html", {"preview": found}).split())
