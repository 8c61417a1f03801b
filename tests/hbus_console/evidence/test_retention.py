"""Evidence is kept bounded by the ground itself, whichever features are installed."""

from __future__ import annotations

import pytest

from engine.core.clock import ManualClock
from hbus_console.evidence import retention
from hbus_console.evidence.models import Evidence, Notice
from hbus_console.evidence.retention import NOTICES_EVERY_MS, NOTICES_MS, EvidenceRetention

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

NOW = 1_790_000_100_000


def told(*times_ms: int) -> None:
    for at_ms in times_ms:
        Evidence.objects.create(kind="toy_run_ended", subject="job:close-of-day", at_ms=at_ms)


def test_the_newest_facts_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 3)
    told(*range(NOW, NOW + 20))
    EvidenceRetention(5, clock=ManualClock(NOW)).tick()
    assert list(Evidence.objects.order_by("pk").values_list("at_ms", flat=True)) == [*range(NOW + 15, NOW + 20)]


def test_nothing_goes_while_there_is_room() -> None:
    told(*range(5))
    EvidenceRetention(5, clock=ManualClock(NOW)).tick()
    assert Evidence.objects.count() == 5


def test_notices_end_after_their_time_and_are_looked_at_now_and_then() -> None:
    clock = ManualClock(NOW)
    duty = EvidenceRetention(5, clock=clock)
    for age_ms in (NOTICES_MS - 1, NOTICES_MS + 1):
        Notice.objects.create(kind="trimmed", at_ms=NOW - age_ms)
    duty.tick()
    assert Notice.objects.count() == 1
    clock.advance((NOTICES_EVERY_MS - 1) / 1000)
    duty.tick()
    assert Notice.objects.count() == 1
    clock.advance(0.001)
    duty.tick()
    assert not Notice.objects.exists()
