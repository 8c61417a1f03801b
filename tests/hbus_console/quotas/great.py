"""Thousands of policies and plans in books of their own, written past the services: they are what is looked at."""

from __future__ import annotations

from hbus_console.quotas.models import BookInForce, PolicyVersion, QuotaBook, QuotaPolicy, TenantPlan
from hbus_console.quotas.services.draft import snapshot
from hbus_console.teams.models import Team

#: The plans of the first book; each has a third of the policies and of the tenants.
PLANS = ("bronze", "silver", "gold")
_BATCH = 500


def first_book(team: Team, policies: int, plans: int) -> None:
    """So many policies and plans, in book 1."""
    rows = [
        QuotaPolicy(
            name=_policy(n), team=team, limit=5.0 + n % 7, burst=9.0, plan=PLANS[n % 3], resource=f"hotels.r{n}"
        )
        for n in range(policies)
    ]
    QuotaPolicy.objects.bulk_create(rows, _BATCH)
    _versions(rows, 1)
    TenantPlan.objects.bulk_create(
        [TenantPlan(tenant=_tenant(n), plan=PLANS[n % 3], since=1, audit_seq=1) for n in range(plans)], _BATCH
    )
    QuotaBook.objects.create(number=1, audit_seq=1)
    BookInForce.objects.create(pk=1, number=1)


def second_book(policies: int, plans: int) -> None:
    """The first so many policies have another limit, and tenants another plan, in book 2."""
    first = QuotaPolicy.objects.filter(name__lt=_policy(policies))
    PolicyVersion.objects.filter(policy__lt=_policy(policies)).update(until=2)
    first.update(limit=77.0, version=2)
    _versions(list(first.select_related("team")), 2)
    TenantPlan.objects.filter(tenant__lt=_tenant(plans)).update(until=2)
    TenantPlan.objects.bulk_create(
        [TenantPlan(tenant=_tenant(n), plan="platinum", since=2, audit_seq=1) for n in range(plans)], _BATCH
    )
    QuotaBook.objects.create(number=2, audit_seq=1)
    BookInForce.objects.update(number=2)


def _versions(rows: list[QuotaPolicy], number: int) -> None:
    PolicyVersion.objects.bulk_create(
        [
            PolicyVersion(policy=row.name, number=number, settings=snapshot(row), since=number, audit_seq=1)
            for row in rows
        ],
        _BATCH,
    )


def _policy(number: int) -> str:
    return f"policy-{number:05}"


def _tenant(number: int) -> str:
    return f"tenant-{number:06}"
