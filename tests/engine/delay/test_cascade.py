"""Copying buckets: nothing is lost or doubled, wherever it is broken off."""

from __future__ import annotations

import pytest

from engine.core.errors import OutcomeUnknown, Unavailable
from engine.delay.cascade import SourceTombstones
from engine.delay.ledgers.memory import ModelEngine
from engine.delay.levels import DAY_MS, HOUR_MS, MINUTE_MS, Level
from engine.delay.outcomes import CancelStatus
from engine.delay.records import PendingMessage, packed, tombstone
from engine.delay.simulation.faults import NodeKilled
from tests.engine.delay.kit import BEGIN, SECOND, Bench, CountingEngine, name


def _prepared(distance: int) -> tuple[Bench, list[str]]:
    """Four messages, of which one is cancelled, and the moment at which their bucket is copied."""
    bench = Bench(ModelEngine(), chunk_bytes=300)
    handles = bench.add(distance, distance + 3, distance + 2, distance + 1)
    assert bench.shard.cancel(handles[1:2], bench.now) == [CancelStatus.CANCELLED]
    bucket = bench.shard.look().buckets[0].bucket
    bench.now = bucket.start_ms - MINUTE_MS
    return bench, [name(BEGIN + distance), name(BEGIN + distance + 1), name(BEGIN + distance + 2)]


def _kill() -> None:
    raise NodeKilled


def _away() -> None:
    raise Unavailable("the store is away")


def _lose() -> None:
    raise OutcomeUnknown("the answer was lost")


@pytest.mark.parametrize("distance", [5 * HOUR_MS, 3 * DAY_MS, 23 * DAY_MS])
@pytest.mark.parametrize("after", [False, True])
def test_an_owner_that_dies_at_any_step_of_a_cascade_loses_and_doubles_nothing(distance: int, after: bool) -> None:
    at, died = 1, True
    while died:
        bench, expected = _prepared(distance)
        dying = CountingEngine(bench.engine, at, _kill, after=after)
        try:
            bench.take_over(dying)
            bench.drain()
            dying.stop()
            died = False
        except NodeKilled:
            bench.take_over()
        assert bench.drain() == []
        bench.now = BEGIN + distance + SECOND
        assert bench.drain() == expected, f"dead at call {at}"
        bench.now += 2 * HOUR_MS
        assert bench.drain() == []
        assert bench.engine.open("s").metadata().buckets == {}
        assert bench.engine.open("s").ledgers() == []
        at += 1
    assert at > 15


@pytest.mark.parametrize("happen", [_away, _lose])
@pytest.mark.parametrize("distance", [5 * HOUR_MS, 3 * DAY_MS, 23 * DAY_MS])
def test_a_store_that_is_away_at_any_step_holds_it_up_and_no_more(distance: int, happen: object) -> None:
    at, failed = 1, True
    while failed:
        bench, expected = _prepared(distance)
        failing = CountingEngine(bench.engine, 10**6, happen, after=happen is _lose)  # type: ignore[arg-type]
        bench.take_over(failing)
        failing.begin(at)
        failed = False
        published: list[str] = []
        bench.now -= MINUTE_MS
        step = max(SECOND, distance // 200)
        # Once more after its time: what could not be read on is handed over by the next tick.
        while bench.now < BEGIN + distance + step:
            bench.now += step
            for _ in range(100):
                try:
                    handed = bench.shard.tick(bench.now, 100)
                except Unavailable:
                    failed = True
                    continue
                bench.shard.dispatched(handed.messages)
                published += [each.record.message().message_id for each in handed.messages]
                if not handed.busy:
                    break
        assert published == expected, f"away at call {at}"
        at += 7


def test_what_is_cascaded_lies_sorted_in_the_level_below() -> None:
    bench, _ = _prepared(3 * DAY_MS)
    bench.now -= 5 * HOUR_MS
    bench.drain()
    store = bench.engine.open("s")
    levels = {bucket.level for bucket in store.metadata().buckets}
    assert levels == {Level.L1H}
    refs = [ref for each in store.metadata().buckets.values() for ref in each]
    assert {str(ref.kind) for ref in refs} == {"run"}
    assert sum(ref.messages for ref in refs) == 3
    assert sum(ref.tombstones for ref in refs) == 0
    abouts = {info.id: info.about for info in store.ledgers()}
    assert {abouts[ref.id].source for ref in refs} == {"L2d/20730#1"}
    assert abouts.keys() == {ref.id for ref in refs}


def test_a_chunk_makes_a_run_so_that_memory_is_bounded() -> None:
    bench = Bench(ModelEngine(), chunk_bytes=5_000)
    for _ in range(10):
        bench.add(*[5 * HOUR_MS + number for number in range(20)])
    bench.now += 4 * HOUR_MS + 58 * MINUTE_MS
    bench.drain()
    (refs,) = bench.engine.open("s").metadata().buckets.values()
    assert len(refs) > 4
    bench.now = BEGIN + 5 * HOUR_MS + SECOND
    assert bench.drain() == [name(BEGIN + 5 * HOUR_MS + number // 10) for number in range(200)]


def test_a_tombstone_goes_with_the_message_of_its_own_version_alone() -> None:
    """A message was rescheduled, and cancelled: its first version may still lie in a bucket above."""
    of = [packed(PendingMessage(1, "id", "topic", b"", "", 7, version)) for version in range(3)]
    tombstones = SourceTombstones()
    tombstones.collect([tombstone(of[0]), tombstone(of[1]), *of])
    assert tombstones.end(of[1])
    assert [record.version for record in tombstones.unmet()] == [0]
    assert not tombstones.end(of[2])
    assert tombstones.end(of[0])
    assert list(tombstones.unmet()) == []
