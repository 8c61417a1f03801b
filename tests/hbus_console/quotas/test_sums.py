"""What quarters of an hour tell is what their minutes add up to, and what is not kept is said."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from random import Random
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connections
from django.db.models import Q, Sum

from engine.core.clock import ManualClock
from engine.quota.uses import Key, Used
from hbus_console.quotas import retention
from hbus_console.quotas.models import QuotaUse, QuotaUseRollup, UsesTrimmed
from hbus_console.quotas.retention import USES_S, QuotaRetention
from hbus_console.quotas.sums import (
    QUARTER_S,
    UsesReach,
    asked_by_minute,
    parts,
    reach,
    used_by_minute,
    used_by_slot,
    used_by_tenant,
    used_over,
)
from tests.hbus_console.quotas.booked import book, book_one

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

#: A day whose beginning is a quarter's.
DAY = 1_780_012_800
ALL_KEPT = UsesReach(0, 0)
KEYS: list[Key] = [
    (service, resource, tenant)
    for service, resource in (("publish", "hotels.rates"), ("publish", "hotels.booked"), ("jobs", "hotels.close"))
    for tenant in ("ada", "ada/laptop", "bob", "")
]
Minutes = dict[tuple[int, Key], tuple[int, int]]


def _hours(random: Random, minutes: int = 150) -> Minutes:
    """Booked in an order and in parts as they come from several nodes."""
    told: Counter[tuple[int, Key]] = Counter()
    lost: Counter[tuple[int, Key]] = Counter()
    batches = []
    for _ in range(120):
        minute = DAY + random.randrange(minutes) * 60
        uses = {
            key: Used(admitted=random.randrange(90), refused=random.choice([0, 0, random.randrange(9)]))
            for key in random.sample(KEYS, 3)
        }
        batches.append((minute, uses))
    for minute, uses in batches:
        book(minute, uses)
        for key, used in uses.items():
            told[minute, key] += used.admitted
            lost[minute, key] += used.refused
    return {each: (told[each], lost[each]) for each in told | lost}


def _added(minutes: Minutes, start: int, end: int, tenant: str | None = None) -> tuple[int, int]:
    chosen = [both for (minute, key), both in minutes.items() if start <= minute < end and tenant in (None, key[2])]
    return sum(passed for passed, _ in chosen), sum(lost for _, lost in chosen)


@pytest.mark.parametrize("seed", range(3))
def test_every_time_adds_up_to_its_minutes(seed: int) -> None:
    random = Random(seed)
    minutes = _hours(random)
    spans = [(DAY, DAY + 9_000), (DAY + 60, DAY + 120), (DAY + 840, DAY + 960), (DAY + 900, DAY + 1_800)]
    spans += [tuple(sorted(DAY + 60 * random.randrange(160) for _ in range(2))) for _ in range(25)]
    for start, end in spans:
        assert used_over(Q(), start, end, ALL_KEPT) == _added(minutes, start, end)
        by_tenant = used_by_tenant(Q(service="publish"), start, end, ALL_KEPT)
        published = {each: both for each, both in minutes.items() if each[1][0] == "publish"}
        for tenant in ("ada", "ada/laptop", "bob", ""):
            assert by_tenant.get(tenant, (0, 0)) == _added(published, start, end, tenant)


@pytest.mark.parametrize("step", [60, 300, 900, 3_600])
@pytest.mark.parametrize("limiter", [None, KEYS[0]])
def test_every_slot_adds_up_to_its_minutes(step: int, limiter: Key | None) -> None:
    minutes = _hours(Random(9))
    of = Q() if limiter is None else Q(service=limiter[0], resource=limiter[1], tenant=limiter[2])
    mine = {each: both for each, both in minutes.items() if limiter in (None, each[1])}
    found = used_by_slot(of, DAY, DAY + 3 * 3_600, step, limiter)
    for slot in range(DAY, DAY + 3 * 3_600, step):
        assert found.get(slot, (0, 0)) == _added(mine, slot, slot + step)


def test_what_is_read_by_the_minute_is_what_was_booked() -> None:
    minutes = _hours(Random(4))
    found = used_by_minute(Q(), DAY + 120, DAY + 3_600)
    asked = {(minute, tenant): count for minute, tenant, count in asked_by_minute(Q(), DAY, DAY + 3_600, ["bob"])}
    for minute in range(DAY + 120, DAY + 3_600, 60):
        assert found.get(minute, (0, 0)) == _added(minutes, minute, minute + 60)
        assert asked.get((minute, "bob"), 0) == sum(_added(minutes, minute, minute + 60, "bob"))
    assert min(found) >= DAY + 120


@pytest.mark.parametrize(
    ("start", "end", "kept", "read"),
    [
        # All is kept: whole quarters, and what is left of it at both ends.
        (60, 2_760, UsesReach(0, 0), ((900, 2_700), [(60, 900), (2_700, 2_760)])),
        (0, 1_800, UsesReach(0, 0), ((0, 1_800), [])),
        (60, 900, UsesReach(0, 0), (None, [(60, 900)])),
        # Its first minutes are not: the quarter stands for them.
        (60, 2_760, UsesReach(120, 0), ((0, 2_700), [(2_700, 2_760)])),
        (60, 960, UsesReach(7_200, 0), ((0, 1_800), [])),
        # Nor its first quarters.
        (60, 2_760, UsesReach(1_000, 1_800), ((1_800, 2_700), [(1_000, 1_800), (2_700, 2_760)])),
        (60, 2_760, UsesReach(7_200, 1_800), ((1_800, 3_600), [])),
        (60, 900, UsesReach(7_200, 7_200), (None, [])),
    ],
)
def test_where_minutes_are_not_kept_their_quarter_stands_for_them(
    start: int, end: int, kept: UsesReach, read: tuple[tuple[int, int] | None, list[tuple[int, int]]]
) -> None:
    assert parts(start, end, kept) == read


def test_the_migration_rolls_up_what_was_booked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    migration = import_module("hbus_console.quotas.migrations.0002_use_rollup")
    _hours(Random(5))
    # As a release wrote it that bounded nothing.
    QuotaUse.objects.create(minute=DAY - 60, service="s", resource="r", tenant="t", admitted=10**15, refused=-5)
    booked = {(row.minute, row.service, row.resource, row.tenant): row.admitted for row in QuotaUseRollup.objects.all()}

    def roll_up() -> None:
        QuotaUseRollup.objects.all().delete()
        with connections["ledger"].cursor() as cursor:
            migration.roll_up(apps, SimpleNamespace(connection=connections["ledger"], execute=cursor.execute))

    roll_up()
    rolled = {(row.minute, row.service, row.resource, row.tenant): row.admitted for row in QuotaUseRollup.objects.all()}
    hostile = QuotaUseRollup.objects.get(tenant="t")
    assert rolled == {**booked, (DAY - QUARTER_S, "s", "r", "t"): 10**12}
    assert hostile.refused == 0
    assert not UsesTrimmed.objects.exists()
    monkeypatch.setattr(migration, "MOST_USES", QuotaUse.objects.count())
    roll_up()
    assert dict(UsesTrimmed.objects.values_list("uses", "since")) == {
        "ledger_quota_use": DAY,
        "ledger_quota_use_rollup": DAY,
    }


def test_uses_reach_back_two_weeks_or_to_where_they_were_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    now = clock.now_ms() // 60_000 * 60
    old, quarter = reach(clock.now_ms()), (now - USES_S + QUARTER_S) // QUARTER_S * QUARTER_S
    assert 0 <= old.minutes - (now - USES_S) <= 60
    assert old.quarters in (quarter, quarter - QUARTER_S)
    assert old.quarters >= now - USES_S
    begin = now // QUARTER_S * QUARTER_S - 3_600
    for place, minute in enumerate(range(begin, begin + 3_600, 60)):
        book(minute, {("publish", "hotels.rates", f"tenant-{number}"): Used(1) for number in range(3 + place % 2)})
    rows = QuotaUse.objects.count()
    monkeypatch.setattr(retention, "MOST_USES", rows - 7)
    monkeypatch.setattr(retention, "BATCH", 3)
    QuotaRetention(clock=clock).tick()
    assert QuotaUse.objects.count() == rows - 7
    # Of the first minute went 3 rows, of the second 4: both are not whole.
    assert reach(clock.now_ms()) == UsesReach(begin + 120, old.quarters)
    # Of the third one row is left over from a cut in its midst, which is not told.
    monkeypatch.setattr(retention, "MOST_USES", rows - 9)
    QuotaRetention(clock=clock).tick()
    assert reach(clock.now_ms()).minutes == begin + 180
    assert used_by_minute(Q(), begin + 120, begin + 180) == {begin + 120: (1, 0)}
    assert used_over(Q(), begin + 120, begin + 240, reach(clock.now_ms()))[0] == sum(
        QuotaUseRollup.objects.filter(minute=begin).values_list("admitted", flat=True)
    ), "the quarter stands for it"


def test_quarters_are_trimmed_by_age_and_number_as_minutes_are(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    now = clock.now_ms() // 1000
    begin = now // QUARTER_S * QUARTER_S - 10 * QUARTER_S
    book_one(now - USES_S - QUARTER_S, KEYS[0], 5)
    for quarter in range(10):
        book_one(begin + quarter * QUARTER_S, KEYS[0], 1)
    QuotaRetention(clock=clock).tick()
    assert QuotaUseRollup.objects.aggregate(all=Sum("admitted"))["all"] == 10
    monkeypatch.setattr(retention, "MOST_USES", 4)
    QuotaRetention(clock=clock).tick()
    assert QuotaUseRollup.objects.count() == QuotaUse.objects.count() == 4
    assert reach(clock.now_ms()).quarters == begin + 6 * QUARTER_S
    # What comes late of what has gone is trimmed anew, and moves nothing.
    book_one(begin, KEYS[0], 1)
    QuotaRetention(clock=clock).tick()
    assert reach(clock.now_ms()).quarters == begin + 6 * QUARTER_S
