"""A long log costs time, not memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings

from hbus_console.audit import chain
from hbus_console.audit import export as exports
from hbus_console.audit import verify as verification
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import content
from hbus_console.audit.verify import verify

pytestmark = pytest.mark.django_db


def fill(count: int) -> None:
    """``count`` genuine entries, much faster than one transaction each."""
    previous, rows = chain.GENESIS, []
    began = datetime(2026, 1, 1, tzinfo=UTC)
    for seq in range(1, count + 1):
        entry = AuditEntry(
            seq=seq,
            at=began + timedelta(seconds=seq),
            actor="anna",
            actor_kind="user",
            action="topic.change",
            target_type="topic",
            target="booking.created",
            topic="booking.created",
            reason="x" * 200,
            before={"text": "y" * 500},
            after={"text": "z" * 500},
            previous_hash=previous,
        )
        entry.hash = previous = chain.link(settings.AUDIT_KEY, previous, content(entry))
        rows.append(entry)
    AuditEntry.objects.bulk_create(rows, batch_size=500)


def peak(act: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def read_all() -> None:
    for _ in exports.export(exports_actor(), "jsonl").chunks():
        pass


def exports_actor() -> Any:
    from hbus_console.accounts.permissions import SYSTEM

    return SYSTEM


@pytest.mark.parametrize("act", [verify, read_all])
def test_memory_does_not_grow_with_the_log(
    audit_state: object, monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]
) -> None:
    monkeypatch.setattr(verification, "BATCH", 100)
    monkeypatch.setattr(exports, "BATCH", 100)
    fill(1_500)
    peak(act)
    # All 1,500 entries at once would take over 3 MB; a batch of 100 takes about half of one.
    assert peak(act) < 1_500_000
