"""Cancelling and rescheduling: a definite answer, wherever the message lies."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from engine.core.errors import BadInput
from engine.delay.ledgers.contract import LedgerEngine
from engine.delay.ledgers.memory import ModelEngine
from engine.delay.ledgers.sqlite import SqliteEngine
from engine.delay.levels import DAY_MS, HOUR_MS, MINUTE_MS
from engine.delay.outcomes import CancelStatus
from engine.delay.records import PendingMessage, RecordKind, records_of
from engine.delay.search import DelayHandle, WantedMessages, parse_handle
from tests.engine.delay.kit import BEGIN, SECOND, Bench, name

CANCELLED, DISPATCHED, UNKNOWN = CancelStatus.CANCELLED, CancelStatus.DISPATCHED, CancelStatus.UNKNOWN
DISTANCES = [30 * SECOND, 20 * MINUTE_MS, 5 * HOUR_MS, 30 * HOUR_MS, 9 * DAY_MS, 23 * DAY_MS]


@pytest.fixture(params=["model", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> LedgerEngine:
    return ModelEngine() if request.param == "model" else SqliteEngine(tmp_path)


@pytest.mark.parametrize("distance", DISTANCES)
def test_what_is_cancelled_never_comes_and_its_neighbour_does(engine: LedgerEngine, distance: int) -> None:
    bench = Bench(engine)
    one, other = bench.add(distance, distance + 1)
    assert bench.shard.cancel([one], bench.now) == [CANCELLED]
    assert bench.shard.cancel([one], bench.now) == [UNKNOWN]
    bench.now += distance + SECOND
    assert bench.drain() == [name(other.due_ms)]
    assert bench.shard.cancel([one, other], bench.now) == [UNKNOWN, DISPATCHED]


@pytest.mark.parametrize("taken_over", [False, True])
@pytest.mark.parametrize("before", [3 * DAY_MS, 5 * HOUR_MS, 90 * MINUTE_MS, 10 * MINUTE_MS, 40 * SECOND])
def test_it_is_found_wherever_it_has_been_copied_to(engine: LedgerEngine, before: int, taken_over: bool) -> None:
    bench = Bench(engine)
    one, other = bench.add(23 * DAY_MS, 23 * DAY_MS)
    bench.run(23 * DAY_MS - before, 3 * HOUR_MS)
    bench.now = BEGIN + 23 * DAY_MS - before
    if taken_over:
        bench.take_over()
    assert bench.shard.cancel([one], bench.now) == [CANCELLED]
    bench.run(before + SECOND, max(SECOND, before // 50))
    assert engine.open("s").metadata().buckets == {} or bench.run(2 * MINUTE_MS) == []
    assert bench.shard.cancel([one], bench.now) == [UNKNOWN]
    assert other.due_ms == one.due_ms


def test_a_tombstone_above_its_message_ends_it_when_both_have_come_down(engine: LedgerEngine) -> None:
    """The message waits in an hour that is being copied; its tombstone goes to the minute."""
    bench = Bench(engine, steps=1)
    one, other = bench.add(5 * HOUR_MS + SECOND, 5 * HOUR_MS + 2 * SECOND)
    bench.now += 4 * HOUR_MS + 50 * MINUTE_MS
    # It has begun, and is not done.
    bench.tick()
    assert bench.shard.look().cascades[0].running
    assert bench.shard.cancel([one], bench.now) == [CANCELLED]
    assert bench.run(12 * MINUTE_MS) == [name(other.due_ms)]


def test_a_tombstone_is_carried_down_by_the_next_cascade(engine: LedgerEngine) -> None:
    """The message waits in a day that is being copied when its tombstone goes to the hour."""
    bench = Bench(engine, steps=1)
    one, other = bench.add(2 * DAY_MS + 5 * HOUR_MS, 2 * DAY_MS + 5 * HOUR_MS + 1)
    bench.now += DAY_MS + 15 * HOUR_MS
    bench.tick()
    assert bench.shard.look().cascades[0].running
    assert bench.shard.cancel([one], bench.now) == [CANCELLED]
    bench.take_over()
    assert bench.run(15 * HOUR_MS, 5 * MINUTE_MS) == [name(other.due_ms)]


def test_what_is_on_its_way_is_dispatched(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    (one,) = bench.add(SECOND)
    bench.now += SECOND
    taken = bench.shard.tick(bench.now, 10).messages
    assert bench.shard.cancel([one], bench.now) == [DISPATCHED]
    bench.shard.dispatched(taken)
    assert bench.shard.cancel([one], bench.now) == [DISPATCHED]
    # Some minutes later nobody knows of it any more.
    bench.run(5 * MINUTE_MS)
    assert bench.shard.cancel([one], bench.now) == [UNKNOWN]


def test_the_next_owner_knows_what_was_dispatched_and_cancels_nothing_that_may_have_been(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    noted, flying, later = bench.add(SECOND, 2 * SECOND, 30 * SECOND)
    bench.now += 2 * SECOND
    bench.shard.dispatched(bench.shard.tick(bench.now, 1).messages)
    # Published, and nobody knows.
    bench.shard.tick(bench.now, 1)
    bench.take_over()
    assert bench.shard.cancel([noted, flying, later], bench.now) == [DISPATCHED, DISPATCHED, CANCELLED]
    assert bench.tick() == [name(flying.due_ms)]


def test_who_is_owner_no_more_gives_no_answer(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    (one,) = bench.add(SECOND)
    bench.now += SECOND
    old = bench.shard
    old.tick(bench.now, 1)
    bench.take_over()
    with pytest.raises(Exception, match="epoch 1"):
        old.cancel([one], bench.now)


def test_strangers_handles_are_unknown(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    (one,) = bench.add(HOUR_MS)
    wrong = [one._replace(sequence=one.sequence + 1), one._replace(due_ms=one.due_ms + 1), one._replace(shard="t")]
    assert bench.shard.cancel(wrong, bench.now) == [UNKNOWN] * 3
    assert bench.shard.cancel([*wrong, one, one], bench.now) == [*[UNKNOWN] * 3, CANCELLED, CANCELLED]


def test_by_key_by_id_and_by_whatever_else(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    bench.add(HOUR_MS, 5 * HOUR_MS, 9 * DAY_MS, key="booking-1")
    bench.add(HOUR_MS + 1, 23 * DAY_MS, key="booking-2", body=b"other")
    by_key = bench.shard.cancel_where(
        WantedMessages(keys=frozenset({"booking-1"}), due_from_ms=BEGIN + 2 * HOUR_MS), bench.now
    )
    assert [(message.due_ms - BEGIN, status) for message, status in by_key] == [
        (5 * HOUR_MS, CANCELLED),
        (9 * DAY_MS, CANCELLED),
    ]
    by_id = bench.shard.cancel_where(WantedMessages(message_ids=frozenset({name(BEGIN + HOUR_MS)})), bench.now)
    assert [message.key for message, _ in by_id] == ["booking-1"]
    found = bench.shard.find(WantedMessages(matches=lambda message: message.body == b"other"), bench.now)
    assert [message.due_ms - BEGIN for message in found] == [HOUR_MS + 1, 23 * DAY_MS]
    assert bench.shard.find(WantedMessages(keys=frozenset({"booking-1"})), bench.now) == []
    assert bench.shard.look().pending == 2


@pytest.mark.parametrize("old", DISTANCES)
@pytest.mark.parametrize("new", DISTANCES)
def test_what_is_rescheduled_comes_once_at_its_new_time(engine: LedgerEngine, old: int, new: int) -> None:
    bench = Bench(engine)
    (first,) = bench.add(old)
    status, handle = bench.shard.reschedule(first, BEGIN + new + 7, bench.now)
    assert (status, handle) == (CANCELLED, DelayHandle("s", BEGIN + new + 7, first.sequence))
    assert bench.shard.cancel([first], bench.now) == [UNKNOWN]
    assert bench.shard.look().pending == 1
    bench.now = BEGIN + new + 6
    assert bench.drain() == []
    bench.now = BEGIN + new + 10
    assert bench.drain() == [name(BEGIN + old)]
    bench.now = max(bench.now, BEGIN + old) + SECOND
    assert bench.drain() == []


def test_it_is_rescheduled_again_and_cancelled_by_its_last_handle_alone(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    (first,) = bench.add(30 * HOUR_MS)
    handles = [first]
    for due in (9 * DAY_MS, 30 * SECOND, 40 * SECOND, 5 * HOUR_MS):
        status, handle = bench.shard.reschedule(handles[-1], BEGIN + due, bench.now)
        assert status is CANCELLED
        assert handle is not None
        handles.append(handle)
    assert bench.shard.reschedule(handles[1], BEGIN + HOUR_MS, bench.now) == (UNKNOWN, None)
    assert bench.shard.cancel(handles, bench.now) == [*[UNKNOWN] * 4, CANCELLED]
    bench.now += 10 * DAY_MS
    assert bench.drain() == []


def test_within_one_bucket_both_records_are_one_entry(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    (first,) = bench.add(9 * DAY_MS + HOUR_MS)
    bench.shard.reschedule(first, BEGIN + 9 * DAY_MS + 2 * HOUR_MS, bench.now)
    store = engine.open("s")
    (refs,) = store.metadata().buckets.values()
    entries = [records_of(entry) for entry in store.read(refs[0].id)]
    kinds = [[(record.kind, record.version) for record in entry] for entry in entries]
    assert kinds == [[(RecordKind.MESSAGE, 0)], [(RecordKind.TOMBSTONE, 0), (RecordKind.MESSAGE, 1)]]


def test_what_was_dispatched_is_not_rescheduled(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    (one,) = bench.add(SECOND)
    bench.now += SECOND
    bench.tick()
    assert bench.shard.reschedule(one, bench.now + HOUR_MS, bench.now) == (DISPATCHED, None)
    with pytest.raises(BadInput, match="horizon"):
        bench.shard.reschedule(one, bench.now + 800 * DAY_MS, bench.now)


def test_a_rescheduled_message_is_the_same_but_for_its_time(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    message = PendingMessage(BEGIN + HOUR_MS, "id", "topic", b"\x00\xff", "key")
    (kept,) = bench.try_add([message])
    assert kept.handle is not None
    bench.shard.reschedule(kept.handle, BEGIN + 9 * DAY_MS, bench.now)
    (found,) = bench.shard.find(WantedMessages(keys=frozenset({"key"})), bench.now)
    expected = msgspec.structs.replace(message, due_ms=BEGIN + 9 * DAY_MS, sequence=kept.handle.sequence, version=1)
    assert found == expected


def test_a_handle_is_written_and_read() -> None:
    handle = DelayHandle("eu:1", 1_790_000_000_000, 1 << 41)
    assert parse_handle(str(handle)) == handle
    for wrong in ("", "s", "s:1", ":1:2", "s:1:-2", "s:x:2", "s:1:2:", "s:1:٣"):
        with pytest.raises(ValueError, match=r"unpack|no handle"):
            parse_handle(wrong)
