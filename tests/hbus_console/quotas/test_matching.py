"""Patterns as filters of the database find what the engine finds, and nobody waits for one."""

from __future__ import annotations

import time

import pytest

from engine.quota import Rule
from engine.quota.terms import Name
from hbus_console.quotas.matching import advanced, fits, having, tenant_fits
from hbus_console.quotas.models import QuotaUse

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

TENANTS = ("ada", "ada/ci", "ada/x.y", "adam", "bob/ci", "Ada", "a[b]", "a\\b", "a^b", "über", "ci")
PATTERNS = (
    "*", "ada", "ada/*", "ada/ci", "a*", "?da", "*/ci", "*ci", "[ab]*", "[!a]*", "[]a]*", "a[[]b]", "a[b", "a\\b",
    "a^?", "*d*m", "[^a]*", "ü*", "[a-c]*", "*/*",
)  # fmt: skip


def _used(tenant: str, resource: str = "r") -> None:
    QuotaUse.objects.create(minute=60, service="s", resource=resource, tenant=tenant, admitted=1)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_rows_are_found_as_the_engine_covers_tenants(pattern: str) -> None:
    for tenant in TENANTS:
        _used(tenant)
    rule = Rule(id="r", limit=1, burst=1, tenant=pattern)
    found = set(QuotaUse.objects.filter(tenant_fits(pattern)).values_list("tenant", flat=True))
    assert found == {each for each in TENANTS if rule.covers(Name("s", "r", each), "")}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_rows_are_found_as_the_engine_covers_resources(pattern: str) -> None:
    for resource in TENANTS:
        _used("t", resource)
    rule = Rule(id="r", limit=1, burst=1, resource=pattern)
    found = set(QuotaUse.objects.filter(fits("resource", pattern)).values_list("resource", flat=True))
    assert found == {each for each in TENANTS if rule.covers(Name("s", each, "t"), "")}


def test_a_plan_holds_for_programs_that_have_none_of_their_own() -> None:
    for tenant in ("ada", "ada/ci", "ada/other", "bob/ci"):
        _used(tenant)
    found = QuotaUse.objects.filter(having(["ada"], ["ada", "ada/other"]))
    assert set(found.values_list("tenant", flat=True)) == {"ada", "ada/ci"}


def test_no_pattern_makes_the_database_think_for_long() -> None:
    """Found by a stranger: sixteen stars over forty-eight letters held the web role for 24 seconds."""
    _used("a" * 100)
    _used("t", "a" * 100)
    began = time.perf_counter()
    pattern = "*a" * 40 + "*b"
    assert not QuotaUse.objects.filter(tenant_fits(pattern)).exists()
    assert not QuotaUse.objects.filter(fits("resource", pattern)).exists()
    assert time.perf_counter() - began < 1


def test_sets_are_written_for_both_databases() -> None:
    assert advanced("[!a]*.[b") == r"^[^a].*\.\[b$"
