from __future__ import annotations

import pytest

from engine.core.clock import ManualClock
from hbus_console.outbox import retention
from hbus_console.outbox.models import InboxEntry
from hbus_console.outbox.retention import InboxRetention, keep_ms
from hbus_console.topics.models import Topic

pytestmark = pytest.mark.django_db

HOUR_MS = 3_600_000


def entries(*ages_ms: int, clock: ManualClock) -> None:
    InboxEntry.objects.bulk_create(
        InboxEntry(subscription="t/g", source="/s", message_id=f"m{index}", at_ms=clock.now_ms() - age)
        for index, age in enumerate(ages_ms)
    )


def kept() -> list[str]:
    return list(InboxEntry.objects.order_by("pk").values_list("message_id", flat=True))


def test_entries_outlive_twice_the_longest_retention() -> None:
    Topic.objects.create(name="short", retention_hours=1)
    Topic.objects.create(name="long", retention_hours=100)
    clock = ManualClock()
    entries(200 * HOUR_MS + 1, 200 * HOUR_MS - 1, 0, clock=clock)
    InboxRetention(clock).tick()
    assert kept() == ["m1", "m2"]


def test_entries_outlive_the_longest_idempotency_window() -> None:
    Topic.objects.create(name="t", retention_hours=1, idempotency_window_s=30 * 86_400)
    assert keep_ms() == 32 * 24 * HOUR_MS


def test_without_topics_two_days_are_kept() -> None:
    clock = ManualClock()
    entries(48 * HOUR_MS + 1, 48 * HOUR_MS - 1, clock=clock)
    InboxRetention(clock).tick()
    assert kept() == ["m1"]


def test_many_are_removed_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "CHUNK", 10)
    clock = ManualClock()
    entries(*[100 * HOUR_MS] * 35, 0, clock=clock)
    InboxRetention(clock).tick()
    assert kept() == ["m35"]
