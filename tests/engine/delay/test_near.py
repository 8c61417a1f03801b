"""The last minutes, merged in memory."""

from __future__ import annotations

import random

import pytest

from engine.core.errors import Unavailable
from engine.delay.ledgers.contract import PAGE_BYTES, LedgerAbout
from engine.delay.ledgers.memory import ModelLedgers
from engine.delay.ledgers.metadata import LedgerKind
from engine.delay.levels import MINUTE_MS
from engine.delay.near import NearTerm, RunCursor, TakenMessage
from engine.delay.records import Packed, PendingMessage, entries_of, entry_of, packed, tombstone
from tests.engine.delay.kit import BEGIN

MINUTE = BEGIN // MINUTE_MS


@pytest.fixture
def near() -> NearTerm:
    return NearTerm(MINUTE + 1)


@pytest.fixture
def store() -> ModelLedgers:
    return ModelLedgers("s")


def message(due_ms: int, sequence: int, version: int = 0, body: bytes = b"") -> Packed:
    return packed(PendingMessage(BEGIN + due_ms, f"m{sequence}", "topic", body, "", sequence, version))


def run_of(store: ModelLedgers, records: list[Packed]) -> int:
    (ledger,) = store.create([LedgerAbout(1, 0, MINUTE, LedgerKind.RUN, BEGIN)])
    store.append([(ledger, entry_of(batch)) for batch in entries_of(records)])
    return ledger


def taken(near: NearTerm, until_ms: int = MINUTE_MS, most: int = 10_000) -> list[int]:
    return [each.record.sequence for each in near.take(BEGIN + until_ms, most)]


def test_runs_and_late_ones_are_merged_by_due_time_and_sequence(near: NearTerm, store: ModelLedgers) -> None:
    rng = random.Random(5)
    records = [message(rng.randrange(1_000), number) for number in range(600)]
    for part in range(5):
        near.open_run(MINUTE, store, run_of(store, sorted(records[part:500:5])))
    near.open_records(MINUTE, 99, records[500:550])
    for record in records[550:]:
        near.add(MINUTE, record)
    expected = [record.sequence for record in sorted(records)]
    assert taken(near, most=250) + taken(near) == expected
    # Taken, and not noted yet.
    assert not near.minutes[MINUTE].is_drained
    near.noted([TakenMessage(record, MINUTE) for record in records])
    assert near.minutes[MINUTE].is_drained


def test_nothing_is_taken_before_the_moment(near: NearTerm) -> None:
    near.add(MINUTE, message(500, 1))
    assert taken(near, 499) == []
    assert taken(near, 500) == [1]


def test_a_minute_takes_the_memory_of_its_pages(near: NearTerm, store: ModelLedgers) -> None:
    """Three runs of many pages each: of each run one page is ahead, whatever is taken."""
    body = b"x" * (PAGE_BYTES // 4)
    for part in range(3):
        near.open_run(
            MINUTE, store, run_of(store, [message(number, number * 3 + part, body=body) for number in range(60)])
        )
    ahead = 0
    for _ in range(18):
        assert len(taken(near, most=10)) == 10
        for cursor in (head[5] for head in near._heap):
            assert isinstance(cursor, RunCursor)
            waiting = [*cursor._page, *(record.raw for record in cursor._records)]
            ahead = max(ahead, sum(len(each) for each in waiting))
    assert 0 < ahead < 2 * PAGE_BYTES
    assert taken(near) == []


def test_tombstones_of_a_run_are_known_before_its_messages(near: NearTerm, store: ModelLedgers) -> None:
    records = [message(number, number) for number in range(5)]
    near.open_run(MINUTE, store, run_of(store, [tombstone(records[3]), tombstone(records[1]), *records]))
    assert taken(near) == [0, 2, 4]


def test_a_tombstone_ends_versions_up_to_its_own(near: NearTerm) -> None:
    near.open_records(MINUTE, 1, [message(10, 7, 0), message(20, 7, 1), tombstone(message(10, 7, 0)), message(30, 8)])
    assert [(each.record.sequence, each.record.version) for each in near.take(BEGIN + 100, 10)] == [(7, 1), (8, 0)]


def test_a_tombstone_in_one_minute_ends_a_message_in_another(near: NearTerm) -> None:
    near.add(MINUTE, message(10, 1))
    near.add(MINUTE, message(11, 2))
    near.kill(MINUTE + 1, message(10, 1))
    assert taken(near) == [2]
    near.drop(MINUTE + 1)
    assert not near.is_killed(message(10, 1))


def test_a_tombstone_that_lies_in_two_minutes_is_forgotten_with_the_second(near: NearTerm) -> None:
    near.kill(MINUTE, message(10, 1))
    near.kill(MINUTE + 1, message(10, 1))
    near.drop(MINUTE)
    assert near.is_killed(message(10, 1))


def test_a_minute_is_over_when_nothing_waits_in_it_or_can_come_to_it(near: NearTerm) -> None:
    near.add(MINUTE, message(10, 1))
    near.minute(MINUTE + 1)
    end = BEGIN + MINUTE_MS
    assert near.over(MINUTE + 1, end + MINUTE_MS) == []
    batch = near.take(end, 10)
    assert near.over(MINUTE + 1, end + MINUTE_MS) == []
    near.noted(batch)
    assert near.over(MINUTE, end + MINUTE_MS) == []
    assert near.over(MINUTE + 1, end - 1) == []
    assert near.over(MINUTE + 1, end) == [MINUTE]


def test_a_tombstone_stays_until_the_overdue_message_is_gone_that_it_ends(near: NearTerm, store: ModelLedgers) -> None:
    """The message comes to the next minute, long after it was due: by a cascade that came late."""
    near.kill(MINUTE, message(10, 1))
    far = BEGIN + 10 * MINUTE_MS
    # Its bucket is still to be copied.
    assert near.over(MINUTE + 1, BEGIN) == []
    near.open_run(MINUTE + 1, store, run_of(store, [message(10, 1), message(90_000, 2)]))
    assert near.over(MINUTE + 1, far) == []
    near.noted(near.take(BEGIN + 95_000, 10))
    # It was passed over; the next owner would read it again.
    assert near.over(MINUTE + 1, far) == []
    assert near.over(MINUTE + 2, far) == [MINUTE, MINUTE + 1]


def test_what_was_handed_over_by_an_owner_before_is_passed_over(near: NearTerm) -> None:
    near.note_done(MINUTE, [1, 3])
    near.open_records(MINUTE, 1, [message(number, number) for number in range(5)])
    assert taken(near) == [0, 2, 4]
    assert near.is_done(1)
    assert not near.is_done(9)


def test_a_store_that_is_away_holds_up_what_lies_in_it_and_loses_nothing(
    near: NearTerm, store: ModelLedgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b"x" * (PAGE_BYTES // 2)
    near.open_run(MINUTE, store, run_of(store, [message(number, number, body=body) for number in range(8)]))
    whole = ModelLedgers.read

    def away(self: ModelLedgers, ledger: int, first: int = 0) -> list[bytes]:
        raise Unavailable("the store is away")

    monkeypatch.setattr(ModelLedgers, "read", away)
    for _ in range(2):
        with pytest.raises(Unavailable):
            taken(near)
    monkeypatch.setattr(ModelLedgers, "read", whole)
    assert taken(near) == list(range(8))


def test_what_is_given_back_waits_again(near: NearTerm) -> None:
    for number in range(3):
        near.add(MINUTE, message(number, number))
    batch = near.take(BEGIN + 100, 10)
    near.give_back(batch[1:])
    assert not near.is_done(1)
    assert taken(near) == [1, 2]
