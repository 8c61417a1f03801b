"""A shard in one owner's hands, and in those of the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.core.errors import BadInput
from engine.delay.errors import ShardLost, StaleEpoch
from engine.delay.ledgers.contract import LedgerEngine
from engine.delay.ledgers.memory import ModelEngine
from engine.delay.ledgers.metadata import LedgerKind
from engine.delay.ledgers.sqlite import SqliteEngine
from engine.delay.levels import DAY_MS, HOUR_MS, MINUTE_MS, WEEK_MS, Level
from engine.delay.outcomes import AddStatus
from engine.delay.records import PendingMessage
from engine.delay.shard import DelayShard
from tests.engine.delay.kit import BEGIN, SECOND, Bench, name, names


@pytest.fixture(params=["model", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> LedgerEngine:
    return ModelEngine() if request.param == "model" else SqliteEngine(tmp_path)


def test_a_message_comes_when_it_is_due_and_not_before(engine: LedgerEngine) -> None:
    bench = Bench(engine, tick_ms=1)
    bench.add(5 * SECOND)
    bench.now += 5 * SECOND - 1
    assert bench.tick() == []
    bench.now += 1
    assert bench.tick() == [name(BEGIN + 5 * SECOND)]
    assert bench.tick() == []


def test_a_tick_is_waited_for(engine: LedgerEngine) -> None:
    bench = Bench(engine, tick_ms=100)
    bench.add(5_001, 5_100)
    bench.now += 5_099
    assert bench.tick() == []
    bench.now += 1
    assert bench.tick() == [name(BEGIN + 5_001), name(BEGIN + 5_100)]


@pytest.mark.parametrize(
    "distance",
    [0, 40 * SECOND, 3 * MINUTE_MS, 100 * MINUTE_MS, 5 * HOUR_MS, 30 * HOUR_MS, 9 * DAY_MS, 23 * DAY_MS],
)
def test_from_any_level_it_comes_down_in_time(engine: LedgerEngine, distance: int) -> None:
    bench = Bench(engine)
    bench.add(distance, distance + 700, distance)
    bench.now += max(0, distance - 2 * HOUR_MS)
    assert bench.drain() == [] or distance == 0
    published = bench.run(3 * HOUR_MS, 60 * SECOND) if distance else []
    if distance:
        assert published == [name(BEGIN + distance)] * 2 + [name(BEGIN + distance + 700)]
    bench.run(2 * HOUR_MS, MINUTE_MS)
    assert engine.open("s").metadata().buckets == {}
    assert engine.open("s").ledgers() == []


def test_what_is_overdue_comes_first_the_oldest_of_it_first_and_under_a_cap(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    distances = [9 * DAY_MS, 5 * MINUTE_MS, 30 * HOUR_MS, 20 * SECOND, 22 * DAY_MS, 4 * HOUR_MS, -SECOND]
    bench.add(*distances)
    bench.now += 30 * DAY_MS
    bench.take_over()
    bench.add(-1)
    expected = [name(BEGIN + each) for each in sorted(distances)] + [name(bench.now - 1)]
    published: list[str] = []
    for _ in range(30):
        batch = bench.tick(most=2)
        assert len(batch) <= 2
        published += batch
    assert published == expected


def test_messages_of_one_moment_come_in_the_order_in_which_they_were_added(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    due = BEGIN + 10 * SECOND
    ids = [f"m{number}" for number in range(50)]
    bench.try_add([PendingMessage(due, each, "topic", b"") for each in ids])
    bench.now = due
    assert bench.tick() == ids


def test_a_bad_message_fails_alone(engine: LedgerEngine) -> None:
    bench = Bench(engine, horizon_ms=10 * DAY_MS)
    messages = [PendingMessage(bench.now + each, f"m{each}", "topic", b"") for each in (1_000, 11 * DAY_MS, 2_000)]
    good, bad, other = bench.try_add(messages)
    assert (good.status, bad.status, other.status) == (AddStatus.KEPT, AddStatus.FAILED, AddStatus.KEPT)
    assert isinstance(bad.error, BadInput)
    assert bad.handle is None
    bench.now += 5_000
    assert bench.tick() == ["m1000", "m2000"]


def test_the_next_owner_goes_on_where_the_last_one_ended(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    bench.add(SECOND, 2 * SECOND, 3 * SECOND, 10 * MINUTE_MS, 3 * DAY_MS)
    bench.now += 2 * SECOND
    first = bench.shard.tick(bench.now, 1)
    bench.shard.dispatched(first.messages)
    # Handed over, and its owner dies before it can note that.
    second = bench.shard.tick(bench.now, 1)
    assert names(first.messages + second.messages) == [name(BEGIN + SECOND), name(BEGIN + 2 * SECOND)]

    bench.take_over()
    bench.now += SECOND
    assert bench.tick() == [name(BEGIN + 2 * SECOND), name(BEGIN + 3 * SECOND)]
    assert bench.run(11 * MINUTE_MS) == [name(BEGIN + 10 * MINUTE_MS)]


def test_an_owner_that_has_lost_the_shard_does_nothing_more(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    bench.add(10 * SECOND, 3 * HOUR_MS)
    old = bench.shard
    new = bench.take_over()
    for act in (
        lambda: old.add([PendingMessage(bench.now + 10 * SECOND, "late", "topic", b"")], bench.now),
        lambda: old.tick(bench.now, 10),
        lambda: old.cancel([], bench.now),
        old.close,
    ):
        with pytest.raises(ShardLost, match="epoch 1"):
            act()
    bench.now += 10 * SECOND
    assert names(new.tick(bench.now, 10).messages) == [name(BEGIN + 10 * SECOND)]


def test_each_opening_has_an_epoch_of_its_own(engine: LedgerEngine) -> None:
    Bench(engine)
    for epoch in (0, 1):
        with pytest.raises(StaleEpoch if epoch else BadInput):
            DelayShard.open(engine, "s", epoch, BEGIN)


def test_what_was_not_published_is_handed_over_again(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    bench.add(SECOND, SECOND + 1)
    bench.now += 2 * SECOND
    taken = bench.shard.tick(bench.now, 10).messages
    assert bench.tick() == []
    bench.shard.dispatched(taken[:1])
    bench.shard.give_back(taken[1:])
    assert bench.tick() == [name(BEGIN + SECOND + 1)]


def test_no_more_are_handed_over_than_may_be_in_flight(engine: LedgerEngine) -> None:
    bench = Bench(engine, in_flight=3)
    bench.add(*range(10))
    bench.now += SECOND
    taken = bench.shard.tick(bench.now, 100).messages
    assert len(taken) == 3
    assert bench.shard.tick(bench.now, 100).messages == []
    bench.shard.dispatched(taken)
    assert len(bench.shard.tick(bench.now, 100).messages) == 3


def test_an_orderly_end_leaves_nothing_open(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    bench.add(SECOND, 5 * MINUTE_MS, 3 * DAY_MS)
    bench.now += SECOND
    bench.tick()
    bench.shard.close()
    store = engine.open("s")
    assert all(info.closed for info in store.ledgers())
    refs = [ref for each in store.metadata().buckets.values() for ref in each]
    assert all(ref.sealed for ref in refs)
    assert sum(ref.messages for ref in refs if ref.kind is LedgerKind.WRITE) == 3
    with pytest.raises(ShardLost):
        bench.tick()


def test_a_minute_that_is_too_much_to_sort_at_once_is_merged_from_runs(engine: LedgerEngine) -> None:
    bench = Bench(engine, load_bytes=2_000, chunk_bytes=20_000, steps=3)
    start = 10 * MINUTE_MS
    distances = [start + (number * 7_919) % 60_000 for number in range(500)]
    for at in range(0, 500, 50):
        bench.add(*distances[at : at + 50])
    bench.now += start - 90 * SECOND
    bench.drain()
    bench.now += 40 * SECOND
    bench.drain()
    (refs,) = [each for bucket, each in engine.open("s").metadata().buckets.items() if bucket.start_ms == BEGIN + start]
    assert sum(ref.kind is LedgerKind.RUN for ref in refs) > 2
    # What comes late is merged with them.
    bench.add(start - (bench.now - BEGIN) + 30_000)
    bench.now = BEGIN + start + MINUTE_MS
    assert bench.drain() == [name(BEGIN + each) for each in sorted([*distances, start + 30_000])]


def test_orphans_are_collected_after_an_hour_and_what_is_referred_to_is_not(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    bench.add(3 * DAY_MS)
    store = engine.open("s")
    about = store.ledgers()[0].about
    (orphan,) = store.create([about])
    bench.now += 59 * MINUTE_MS
    bench.tick()
    assert orphan in {info.id for info in store.ledgers()}
    bench.now += MINUTE_MS
    bench.tick()
    left = {info.id for info in store.ledgers()}
    assert orphan not in left
    assert len(left) == 1


def test_what_a_later_owner_made_is_never_collected(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    store = engine.open("s")
    bench.add(3 * DAY_MS)
    about = store.ledgers()[0].about
    (theirs,) = store.create([msgspec.structs.replace(about, epoch=about.epoch + 1)])
    bench.now += 3 * HOUR_MS
    bench.tick()
    assert theirs in {info.id for info in store.ledgers()}


def test_a_look_tells_what_waits_where_and_what_is_copied_next(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    handles = bench.add(SECOND, 2 * SECOND, 10 * MINUTE_MS, 5 * HOUR_MS, 5 * HOUR_MS, 30 * HOUR_MS, 20 * DAY_MS)
    bench.shard.cancel(handles[3:4], bench.now)
    bench.now += SECOND
    taken = bench.shard.tick(bench.now, 1).messages
    bench.shard.dispatched(taken)
    look = bench.shard.look()
    assert (look.shard, look.epoch, look.pending, look.in_flight, look.now_ms) == ("s", 1, 5, 0, bench.now)
    pending = [(each.bucket.level, each.pending) for each in look.buckets]
    assert pending == [(Level.L0M, 1), (Level.L0M, 1), (Level.L1H, 1), (Level.L1H, 1), (Level.L3W, 1)]
    assert [each.loaded for each in look.buckets] == [True, False, False, False, False]
    assert [each.bucket.level for each in look.cascades] == [Level.L1H, Level.L1H, Level.L3W]
    assert all(each.begins_ms < each.deadline_ms and not each.running for each in look.cascades)
    assert sum(each.messages for each in look.ledgers if each.kind is LedgerKind.WRITE) == 7
    bench.now += SECOND
    taken = bench.shard.tick(bench.now, 1).messages
    look = bench.shard.look()
    assert (look.pending, look.in_flight) == (5, 1)
    # The same from the next owner, which has only what is stored.
    bench.shard.dispatched(taken)
    before = bench.shard.look()
    after = bench.take_over().look()
    assert [each[:2] for each in after.buckets] == [each[:2] for each in before.buckets]
    assert after.pending == before.pending == 4


def test_lag_is_that_of_the_earliest_that_waits(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    bench.add(SECOND, 2 * SECOND)
    bench.now += 5 * SECOND
    bench.tick(most=1)
    assert bench.shard.look().lag_ms == 3 * SECOND
    bench.tick()
    assert bench.shard.look().lag_ms == 0


def test_watermarks_are_stored_before_anything_goes_by_them(engine: LedgerEngine) -> None:
    bench = Bench(engine)
    bench.add(3 * HOUR_MS)
    first: Any = engine.open("s").metadata().marks
    bench.now += WEEK_MS
    bench.add(3 * HOUR_MS)
    assert engine.open("s").metadata().marks == first.advanced(bench.now) != first
    # A clock that is behind, of another owner, opens nothing.
    bench.now -= WEEK_MS
    assert bench.take_over().look().marks == first.advanced(bench.now + WEEK_MS)
