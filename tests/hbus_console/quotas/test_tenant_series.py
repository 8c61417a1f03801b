"""What a tenant used by the minute, hour and day: as it was booked, to who may see what it was used of, for good."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.db import connections
from django.test import Client

from engine.core.clock import ManualClock, to_rfc3339
from engine.core.resolution import Resolution
from engine.quota.uses import Key, Used
from hbus_console.access.acts import Role
from hbus_console.quotas import retention
from hbus_console.quotas.api import tenants as tenants_api
from hbus_console.quotas.models import QuotaUse, QuotaUseDay, QuotaUseRollup, UsesTrimmed
from hbus_console.quotas.retention import QuotaRetention
from hbus_console.quotas.tenant_series import tenant_reach, tenant_resolution
from hbus_console.quotas.views import tenants as tenants_views
from tests.hbus_console.quotas.booked import book, book_one

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

DAY_S, HOUR_S = 86_400, 3_600
#: Twenty past ten, UTC.
NOW_S = 1_780_012_800 + 10 * HOUR_S + 1_200
HOUR, TODAY = NOW_S - 1_200, 1_780_012_800
TENANT = "globetrek"
RATES: Key = ("publish", "hotels.rates", TENANT)
FARES: Key = ("publish", "flights.fares", TENANT)
API: Key = ("api", "GET topics", TENANT)
SignedIn = Callable[..., Client]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    clock = ManualClock(NOW_S * 1_000)
    for module in (tenants_api, tenants_views):
        monkeypatch.setattr(module, "_clock", clock)
    return clock


def api(client: Client, query: str, status: int = 200) -> dict[str, Any]:
    answer = client.get(f"/api/v1/quota/tenants/{TENANT}/series?{query}")
    assert answer.status_code == status
    found: dict[str, Any] = answer.json()
    return found


def span(start_s: int, end_s: int) -> str:
    return f"from={start_s * 1_000}&to={end_s * 1_000}"


def admitted(client: Client, resolution: str, start_s: int, end_s: int) -> dict[str, int]:
    found = api(client, f"resolution={resolution}&{span(start_s, end_s)}")
    return {each["at"]: each["admitted"] for each in found["points"]}


def at(second: int) -> str:
    return to_rfc3339(second * 1_000)


def test_every_resolution_adds_up_to_what_was_booked(clock: ManualClock, signed_in: SignedIn) -> None:
    book(HOUR, {RATES: Used(admitted=5, refused=2, delayed=1, shadowed=3), FARES: Used(admitted=10)})
    # The same minute from another node, another minute, another hour, another day, and another tenant.
    for second, amount in ((HOUR, 1), (HOUR + 60, 20), (HOUR - HOUR_S, 40), (TODAY - 60, 80)):
        book_one(second, RATES, amount)
    book_one(HOUR, ("publish", "hotels.rates", "other"), 1_000)
    client = signed_in()
    assert admitted(client, "minute", HOUR - HOUR_S, NOW_S) == {at(HOUR - HOUR_S): 40, at(HOUR): 16, at(HOUR + 60): 20}
    assert admitted(client, "hour", TODAY, NOW_S) == {at(HOUR - HOUR_S): 40, at(HOUR): 36}
    assert admitted(client, "day", TODAY - DAY_S, NOW_S) == {at(TODAY - DAY_S): 80, at(TODAY): 76}
    (found,) = api(client, f"resolution=minute&{span(HOUR, HOUR + 60)}")["points"]
    assert found == {"at": at(HOUR), "admitted": 16, "delayed": 1, "refused": 2, "shadowed": 3}


def test_each_sees_what_was_used_of_what_they_may_see(clock: ManualClock, signed_in: SignedIn) -> None:
    book(HOUR, {RATES: Used(admitted=5), FARES: Used(admitted=10), API: Used(admitted=100)})
    everybody = signed_in()
    hotels, flights, nobody = (signed_in(Role.VIEWER, f"{name}.*") for name in ("hotels", "flights", "ships-of-old"))
    for resolution in Resolution:
        told = [
            sum(admitted(client, resolution.value, TODAY, NOW_S - 60).values())
            for client in (everybody, hotels, flights, nobody)
        ]
        assert told == [115, 5, 10, 0]
    drawn = hotels.get(f"/quotas/tenant-chart/?tenant={TENANT}&range=24h").json()
    assert sum(drawn["series"][0]["values"]) == 5
    # Whom nobody knows looks like whom one may not see.
    one, none = (
        re.findall("<main.*</main>", nobody.get(f"/quotas/tenants/{name}/").content.decode(), re.DOTALL)
        for name in (TENANT, "unknown")
    )
    assert [text.replace(TENANT, "unknown") for text in one] == none
    assert none


def test_days_outlive_minutes_and_quarters_until_they_are_too_many(
    clock: ManualClock, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = signed_in()
    for back in (0, 1, 100, 300):
        book_one(TODAY - back * DAY_S, RATES, back + 1)
    retain = QuotaRetention(clock=clock)
    retain.tick()
    assert QuotaUse.objects.count() == QuotaUseRollup.objects.count() == 2
    wanted = {at(TODAY - back * DAY_S): back + 1 for back in (300, 100, 1, 0)}
    assert admitted(client, "day", TODAY - 310 * DAY_S, NOW_S) == wanted
    monkeypatch.setattr(retention, "MOST_USES", 3)
    QuotaRetention(clock=clock).tick()
    assert QuotaUseDay.objects.count() == 3
    # That day went; what is told begins after it.
    assert api(client, "resolution=day")["told_since"] == at(TODAY - 299 * DAY_S)


def test_days_of_before_they_were_kept_are_told_by_their_quarters(clock: ManualClock, signed_in: SignedIn) -> None:
    for back in range(4):
        book_one(TODAY - back * DAY_S + 60, RATES, back + 1)
    # As an upgrade in the midst of the day before left it: of that day a part was booked as a day.
    QuotaUseDay.objects.filter(minute__lt=TODAY - DAY_S).delete()
    QuotaUseDay.objects.filter(minute=TODAY - DAY_S).update(admitted=1)
    UsesTrimmed.objects.create(uses="ledger_quota_use_day", since=TODAY)
    wanted = {at(TODAY - back * DAY_S): back + 1 for back in range(3, -1, -1)}
    assert admitted(signed_in(), "day", TODAY - 10 * DAY_S, NOW_S) == wanted


def test_the_migration_begins_with_a_whole_day_where_something_was_booked_before() -> None:
    migration = import_module("hbus_console.quotas.migrations.0003_use_days")
    editor = SimpleNamespace(connection=connections["ledger"])
    migration.begin_with_a_whole_day(apps, editor)
    assert not UsesTrimmed.objects.exists()
    book_one(TODAY, RATES, 1)
    migration.begin_with_a_whole_day(apps, editor)
    assert UsesTrimmed.objects.get().since % DAY_S == 0
    migration.forget(apps, editor)
    assert not UsesTrimmed.objects.exists()


def test_the_finest_resolution_that_is_kept_is_chosen() -> None:
    known = tenant_reach(NOW_S * 1_000)
    for days, until, wanted in (
        (1, 0, Resolution.MINUTE),
        (2, 0, Resolution.HOUR),
        (13, 0, Resolution.HOUR),
        (15, 0, Resolution.DAY),
        (20, 19.5, Resolution.DAY),
    ):
        assert tenant_resolution(NOW_S - days * DAY_S, round(NOW_S - until * DAY_S), known) is wanted


def test_the_endpoint_refuses_what_is_too_much_or_makes_no_sense(clock: ManualClock, signed_in: SignedIn) -> None:
    client = signed_in()
    assert "2,001 points by the minute" in str(api(client, f"resolution=minute&{span(HOUR - 2_001 * 60, HOUR)}", 422))
    assert "'field': 'resolution'" in str(api(client, "resolution=year", 422))
    answer = client.get("/api/v1/quota/tenants/a%00b/series")
    assert (answer.status_code, answer.json()["field"]) == (422, "tenant")


def test_a_program_has_a_history_too(clock: ManualClock, signed_in: SignedIn) -> None:
    book_one(HOUR, ("publish", "hotels.rates", "ada/nightly"), 7)
    client = signed_in()
    answer = client.get(f"/api/v1/quota/tenants/ada/nightly/series?resolution=hour&{span(HOUR, NOW_S)}").json()
    assert (answer["tenant"], answer["points"][0]["admitted"]) == ("ada/nightly", 7)
    assert "tenant=ada%2Fnightly" in client.get("/quotas/tenants/ada/nightly/").content.decode()


def test_the_chart_leaves_out_the_span_that_goes_on_and_what_is_not_kept(
    clock: ManualClock, signed_in: SignedIn
) -> None:
    book_one(HOUR - HOUR_S, RATES, 4)
    book_one(HOUR, RATES, 5)
    UsesTrimmed.objects.create(uses="ledger_quota_use", since=HOUR - DAY_S)
    UsesTrimmed.objects.create(uses="ledger_quota_use_rollup", since=HOUR - 2 * HOUR_S)
    client = signed_in()
    data = client.get(f"/quotas/tenant-chart/?tenant={TENANT}&range=24h").json()
    assert data["t"][0] == NOW_S - DAY_S
    assert data["t"][-1] == NOW_S - 120
    asked = dict(zip(data["t"], data["series"][0]["values"], strict=True))
    assert (asked[HOUR - HOUR_S], asked[HOUR - HOUR_S + 60], asked[HOUR]) == (4, 0, 5)
    shown = client.get(f"/quotas/tenants/{TENANT}/?range=7d").content.decode()
    assert "Tokens by the day" in shown
    assert (
        "nothing is told of what was used before"
        not in client.get(f"/quotas/tenants/{TENANT}/?range=24h").content.decode()
    )
