"""Quotas of a large installation, put into the databases at once: policies, who is held to them, and a day of uses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

from django.db import transaction
from django.db.models import F, Sum

from engine.quota import Source
from hbus_console.evidence.inserting import Insert
from hbus_console.evidence.router import LEDGER
from hbus_console.quotas.models import PolicyVersion, QuotaPolicy, QuotaUse, QuotaUseRollup, TenantPlan
from hbus_console.quotas.reports import LimiterReport, NodeReport, keep_report
from hbus_console.quotas.services.books import lock_book, write_book
from hbus_console.quotas.services.draft import snapshot
from hbus_console.teams.models import Team

DAY_MINUTES = 1_440
#: Services and resources that each tenant uses.
NAMES = (
    ("publish", "hotels.rates"), ("publish", "hotels.booked"), ("consume", "hotels.rates"), ("jobs", "hotels.close"),
    ("api", "GET topics"),
)  # fmt: skip
#: A tenant comes, stays for so many minutes, and goes.
SESSION = 20
_AT_ONCE = 20_000
_Use = tuple[int, str, str, str, int, int, int, int]
_COLUMNS = ("minute", "service", "resource", "tenant", "admitted", "delayed", "refused", "shadowed")
_USES, _ROLLUP = Insert(QuotaUse._meta.db_table, _COLUMNS), Insert(QuotaUseRollup._meta.db_table, _COLUMNS)


def policies(count: int, tenants: int) -> None:
    """One for everybody, one that all share, a plan, and one each for tenants and groups of them."""
    team = Team.objects.create(name="Many", contact="many@example.com")
    common = {"team": team, "limit": 50.0, "burst": 100.0}
    rows = [
        QuotaPolicy(name="everyone", **common),
        QuotaPolicy(name="all-together", whose="together", **{**common, "limit": 5_000.0, "burst": 9_000.0}),
        QuotaPolicy(name="partners", plan="partner", **common),
    ]
    for number in range(count - len(rows)):
        service, resource = NAMES[number % len(NAMES)]
        which: dict[str, Any] = {"tenant": _tenant(number % tenants), "service": service, "resource": resource}
        if number % 10 == 9:
            which["tenant"] = f"tenant-{number % 1000:03}*"
        rows.append(QuotaPolicy(name=f"policy-{number:05}", **which, **common))
    with transaction.atomic():
        state = lock_book()
        QuotaPolicy.objects.bulk_create(rows, batch_size=500)
        since = state.number + 1
        PolicyVersion.objects.bulk_create(
            [
                PolicyVersion(policy=row.name, number=1, settings=snapshot(row), since=since, audit_seq=0)
                for row in rows
            ],
            batch_size=500,
        )
        TenantPlan.objects.bulk_create(
            [TenantPlan(tenant=_tenant(number), plan="partner", since=since, audit_seq=0) for number in range(100)]
        )
        write_book(state, 0)


def no_policies() -> None:
    """Take them away again."""
    for rows in (QuotaPolicy, PolicyVersion, TenantPlan):
        rows.objects.all().delete()
    Team.objects.filter(name="Many").delete()


def uses(count: int, tenants: int, now_ms: int, names: int = len(NAMES)) -> int:
    """About ``count`` minutes of limiters over the day that ends now; how many there are."""
    made = 0
    rows = _day(count, tenants, now_ms // 60_000, names)
    with transaction.atomic(using=LEDGER):
        while some := list(islice(rows, _AT_ONCE)):
            _USES.run(some)
            made += len(some)
        roll_up()
    return made


def roll_up() -> None:
    """Book what the minutes add up to, as the projection does with each of them."""
    quarter = F("minute") / QuotaUseRollup.SPAN_S * QuotaUseRollup.SPAN_S
    names = ("service", "resource", "tenant")
    sums = [Sum(name) for name in _COLUMNS[4:]]
    rows = QuotaUse.objects.order_by().values_list(quarter, *names).annotate(*sums)
    _ROLLUP.run(list(rows))


def nodes(count: int, now_ms: int, tenants: int) -> None:
    """Each tells of as many limiters as one does."""
    for node in range(count):
        told = tuple(
            LimiterReport(
                *NAMES[number % len(NAMES)], _tenant((node * 40 + number) % tenants), Source.PERMIT, 18, 50, 100, 1,
                "p1", 25, 18, 4.1, 9.8, 0.5 if number % 7 == 0 else 0.0,
            )
            for number in range(200)
        )  # fmt: skip
        keep_report(f"web-{node}", now_ms, NodeReport(1, 0, told))


def _day(count: int, tenants: int, last: int, names: int) -> Iterator[_Use]:
    """Minute by minute, as it is booked. Always the same."""
    random = Random(7)
    busy: dict[int, set[int]] = {}
    sessions = round(count / (tenants * names * SESSION))
    for tenant in range(tenants):
        for _ in range(sessions):
            # The last of them go on.
            begin = random.randrange(DAY_MINUTES) + SESSION // 2
            for minute in range(begin - SESSION, begin):
                busy.setdefault(minute, set()).add(tenant)
    for minute in range(DAY_MINUTES):
        for tenant in sorted(busy.get(minute, ())):
            for name in range(names):
                service, resource = NAMES[name % len(NAMES)]
                # More names than there are services: as many topics.
                named = f"{resource}.{name // len(NAMES)}" if name >= len(NAMES) else resource
                admitted = random.randrange(1, 900)
                refused = random.randrange(50) if random.random() < 0.02 else 0
                at = (last - DAY_MINUTES + 1 + minute) * 60
                yield at, service, named, _tenant(tenant), admitted, 0, refused, 0


def _tenant(number: int) -> str:
    return f"tenant-{number:05}"
