"""A long log costs time, not memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from hbus_console.audit import chain, trail
from hbus_console.audit import export as exports
from hbus_console.audit import verify as verification
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import content
from hbus_console.audit.trail import Filter
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
            namespace="booking.created",
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
    from hbus_console.access.permissions import SYSTEM

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


def test_a_search_that_no_index_serves_looks_at_a_part_at_a_time_and_says_so(
    audit_state: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(35)
    monkeypatch.setattr(trail, "SCAN", 10)
    everything = AuditEntry.objects.all()
    wanted = Filter(q="y")
    assert trail.scan_for(wanted) == 10
    rare = trail.narrowed(everything, Filter(action="nothing.*"))
    stops, cursor = [], ""
    while True:
        found = trail.page(rare, cursor, scan=trail.ScanBounds(10))
        assert found.entries == []
        if not found.looked_to:
            break
        stops.append(found.looked_to)
        cursor = found.older
    assert stops == [26, 16, 6]
    # What matches is found across the parts, once each and in order.
    seen, cursor = [], ""
    while True:
        found = trail.page(trail.narrowed(everything, wanted), cursor, size=4, scan=trail.ScanBounds(10))
        seen += [entry.seq for entry in found.entries]
        cursor = found.older
        if not cursor:
            break
    assert seen == list(range(35, 0, -1))
    newer = trail.page(rare, "a5", scan=trail.ScanBounds(10))
    assert (newer.looked_to, newer.newer) == (15, "a15")
    assert trail.page(rare, "a30", scan=trail.ScanBounds(10)).looked_to == 0


@pytest.mark.parametrize("wanted", [Filter(actor="anna", q="never"), Filter(target="booking.created", by="hbus")])
def test_a_part_of_the_log_that_is_most_of_it_is_no_bound(
    audit_state: object, monkeypatch: pytest.MonkeyPatch, wanted: Filter
) -> None:
    fill(35)
    assert trail.scan_for(wanted) == 0
    monkeypatch.setattr(trail, "SCAN", 10)
    assert trail.scan_for(wanted) == trail.scan_for(replace(wanted, correlation="of nothing")) == 10


def test_a_time_bounds_a_search_when_little_was_done_in_it(
    audit_state: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(35)
    began = datetime(2026, 1, 1, tzinfo=UTC)
    everything, wanted = AuditEntry.objects.all(), Filter(actor="anna", q="y")
    monkeypatch.setattr(trail, "SCAN", 10)
    long, scan = trail.search(everything, wanted, began, began + timedelta(days=1))
    assert (scan.most, trail.page(long, size=50, scan=scan).looked_to) == (10, 26)
    short, scan = trail.search(everything, wanted, began + timedelta(seconds=20), began + timedelta(seconds=25))
    assert (bool(scan), [entry.seq for entry in trail.page(short).entries]) == (False, [24, 23, 22, 21, 20])
    assert all(bound in str(short.query) for bound in ('."seq" >= 20', '."seq" <= 24'))
    nothing, scan = trail.search(everything, wanted, began + timedelta(days=1))
    assert (bool(scan), list(nothing)) == (False, [])
    assert not trail.search(everything, Filter(actor="anna"), began)[1]


def test_a_time_far_back_in_the_log_is_looked_through_from_its_end_to_its_beginning(
    audit_state: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(60)
    began = datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(trail, "SCAN", 10)
    everything, wanted = AuditEntry.objects.all(), Filter(q="y")
    within = began + timedelta(seconds=8), began + timedelta(seconds=33)
    found, scan = trail.search(everything, wanted, *within)
    # Nothing of what came after is looked at, and nothing of what was before.
    pages, cursor = [], ""
    while True:
        one = trail.page(found, cursor, size=50, scan=scan)
        pages.append((one.looked_to, [entry.seq for entry in one.entries]))
        cursor = one.older
        if not one.looked_to:
            break
    assert pages == [
        (23, list(range(32, 22, -1))),
        (13, list(range(22, 12, -1))),
        (0, list(range(12, 7, -1))),
    ]
    # And the other way: from a number before it, as far as its end.
    forth = trail.page(found, "a2", size=50, scan=scan)
    assert (forth.looked_to, forth.newer, [entry.seq for entry in forth.entries]) == (17, "a17", [*range(17, 7, -1)])
    assert trail.page(found, "a27", size=50, scan=scan).looked_to == 0
    # With one end alone the other is that of the log.
    for ends, first, looked in ((within[:1], (60, 51), 51), ((None, within[1]), (32, 23), 23)):
        found, scan = trail.search(everything, wanted, *ends)
        one = trail.page(found, size=50, scan=scan)
        assert (one.entries[0].seq, one.entries[-1].seq, one.looked_to) == (*first, looked)
    # What is dated elsewhere (a clock was set back) is in it where its number is.
    nothing = trail.page(trail.narrowed(everything, Filter(action="nothing.*"), *within), "b99", scan=scan)
    assert (nothing.entries, nothing.looked_to) == ([], 23)


def test_what_was_done_to_a_thing_is_found_by_an_index(audit_state: object) -> None:
    fill(3)
    plan = trail.narrowed(AuditEntry.objects.all(), Filter(target="x")).order_by("-seq")[:51].explain()
    assert "audit_target_alone" in plan or connection.vendor == "postgresql", plan


@pytest.mark.parametrize(
    "wanted",
    [Filter(actor="a", q="x"), Filter(action="topic.pause"), Filter(target="t"), Filter()],
)
def test_what_an_index_finds_is_not_bounded(wanted: Filter) -> None:
    assert trail.scan_for(wanted) == 0
