"""What is known of uses is bounded, and nodes that are gone for a day are forgotten."""

from __future__ import annotations

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from engine.core.clock import ManualClock
from hbus_console.keeper.duties import all_duties
from hbus_console.quotas import retention
from hbus_console.quotas.models import QuotaNodeReport, QuotaUse
from hbus_console.quotas.reports import GONE_AFTER_MS, NodeReport, keep_report
from hbus_console.quotas.retention import USES_S, QuotaRetention

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def _used(minutes: list[int]) -> None:
    QuotaUse.objects.bulk_create(
        QuotaUse(minute=minute, service="api", resource="GET topics", tenant=f"t{number}", admitted=1)
        for number, minute in enumerate(minutes)
    )


def test_minutes_older_than_two_weeks_go_and_dead_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    now_s = clock.now_ms() // 1000
    _used([now_s - USES_S - 60] * 7 + [now_s - USES_S + 60] * 3)
    keep_report("gone", clock.now_ms() - 24 * GONE_AFTER_MS - 1, NodeReport(1))
    keep_report("silent", clock.now_ms() - 2 * GONE_AFTER_MS, NodeReport(1))
    monkeypatch.setattr(retention, "BATCH", 3)
    QuotaRetention(clock=clock).tick()
    assert QuotaUse.objects.count() == 3
    # The process of the tests may have told of itself.
    assert set(QuotaNodeReport.objects.values_list("node", flat=True)) & {"gone", "silent"} == {"silent"}
    QuotaRetention(clock=clock).tick()
    assert QuotaUse.objects.count() == 3


def test_beyond_so_many_rows_the_oldest_go_whatever_their_age(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    _used([clock.now_ms() // 1000] * 10)
    monkeypatch.setattr(retention, "MOST_USES", 4)
    monkeypatch.setattr(retention, "BATCH", 3)
    QuotaRetention(clock=clock).tick()
    assert [row.tenant for row in QuotaUse.objects.order_by("pk")] == ["t6", "t7", "t8", "t9"]


def test_a_tick_hands_back_control(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    _used([0] * 10)
    monkeypatch.setattr(retention, "BATCH", 2)
    monkeypatch.setattr(retention, "TICK_S", 0.0)
    QuotaRetention(clock=clock).tick()
    assert QuotaUse.objects.count() == 8


def test_the_keeper_has_it() -> None:
    assert "quota-retention" in {duty.name for duty in all_duties()}


def test_a_whole_batch_goes_in_one_statement() -> None:
    clock = ManualClock()
    _used([0] * (retention.BATCH + 1))
    with CaptureQueriesContext(connections["ledger"]) as asked:
        QuotaRetention(clock=clock).tick()
    assert QuotaUse.objects.count() == 0
    assert 2 <= sum(query["sql"].startswith("DELETE") for query in asked) <= 3
