"""Of the messages of a span it is told how many were copied, and into which topics, however the copies came there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from engine.pipeline.audit import copying
from engine.pipeline.audit.report import TopicAudit
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.lake.state import Kind
from tests.engine.pipeline.audit.asking import audit, plain, report
from tests.engine.pipeline.audit.telling import DAY_MS, TOPIC, Booking, Hotel, Told

OTHER = "booking.tried"


@pytest.fixture
def other(hotel: Hotel) -> Hotel:
    """Another topic of the same lake."""
    return Hotel(hotel.root, hotel.clock, OTHER)


def copies(of: Sequence[Booking], *, by: str = "replay", later_ms: int = 5 * DAY_MS) -> list[Booking]:
    """Stored days later, with ids of their own."""
    return [
        replace(
            each, id=f"copy-{by}-{number}-{each.id}", stored_ms=each.stored_ms + later_ms, replay=by, causation=each.id
        )
        for number, each in enumerate(of)
    ]


def copied(found: TopicAudit) -> tuple[int, dict[str, int]]:
    return found.copied, dict(found.copied_into)


def test_of_what_nobody_copied_nothing_is_told(hotel: Hotel, told: Told) -> None:
    hotel.archive(told)
    assert copied(audit(hotel)) == (0, {})


def test_copies_are_counted_by_the_message_and_by_where_they_lie(hotel: Hotel, other: Hotel, told: Told) -> None:
    hotel.archive(told)
    there = copies(told.stored[100:140])
    # Ten of them twice, and a message that only looks as if it named one.
    other.archive_messages([*there, *copies(told.stored[100:110], by="redrive")])
    other.archive_messages([replace(there[0], id="no-copy", replay="", causation=told.stored[200].id)])
    hotel.archive_messages(copies(told.stored[130:160]))

    found = audit(hotel)

    assert copied(found) == (60, {TOPIC: 30, OTHER: 40})
    assert found.replayed.messages == 30


def test_of_a_span_it_is_the_span_whenever_the_copies_came(hotel: Hotel, other: Hotel, told: Told) -> None:
    hotel.archive(told)
    other.archive_messages(copies(told.stored[100:140], later_ms=8 * DAY_MS))
    happened = [each.time_ms or 0 for each in told.stored]
    from_ms, to_ms = happened[100] // 60_000 * 60_000, happened[119] + 60_000
    within = sum(from_ms <= at < to_ms for at in happened[100:140])
    assert 0 < within < 40
    assert copied(audit(hotel, from_ms=from_ms, to_ms=to_ms)) == (within, {OTHER: within})


def test_what_bears_the_same_id_from_another_source_is_another(hotel: Hotel, other: Hotel, told: Told) -> None:
    hotel.archive(told)
    other.archive_messages([replace(each, source="/somebody/else") for each in copies(told.stored[:9])])
    assert copied(audit(hotel)) == (0, {})


def test_it_does_not_depend_on_how_many_are_compared_at_once(
    hotel: Hotel, other: Hotel, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    hotel.archive(told)
    other.archive_messages(copies(told.stored[::7]))
    whole = report(hotel)
    monkeypatch.setattr("engine.pipeline.audit.gathering.ROWS_AT_ONCE", 500)
    assert plain(report(hotel)) == plain(whole)
    assert whole.topics[0].copied == len(told.stored[::7])


def test_no_group_without_a_copy_is_read(
    hotel: Hotel, other: Hotel, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    hotel.archive(told)
    other.archive_messages(copies(told.stored[:3]))
    state = hotel.lake.state()
    asked: list[bool] = []
    has_copies = copying._has_copies

    def noted(metadata: pq.FileMetaData, number: int) -> bool:
        asked.append(has_copies(metadata, number))
        return asked[-1]

    monkeypatch.setattr(copying, "_has_copies", noted)
    copying.copies_in(hotel.root, state, "")
    of_other = [file for file in state.files.values() if file.topic == OTHER and file.kind is Kind.MESSAGES]
    assert asked.count(True) == len(of_other)
    assert asked.count(False) >= sum(file.kind is Kind.MESSAGES for file in state.files.values()) - len(of_other)


def test_a_file_that_cannot_be_read_is_named(hotel: Hotel, other: Hotel, told: Told) -> None:
    hotel.archive(told)
    (file,) = other.archive_messages(copies([told.stored[0]]))
    Path(hotel.root / file.path).write_bytes(b"nothing")
    with pytest.raises(LakeDamaged, match=file.path):
        audit(hotel)
