from __future__ import annotations

import threading
from typing import Any

import pytest
import redis

from engine.core.clock import ManualClock
from hbus_console.nodes import beat, stamps
from hbus_console.nodes.beat import NodeBeat
from hbus_console.nodes.stamps import read_nodes
from hbus_console.supervisor.standalone import StandaloneStore


@pytest.fixture
def store(redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(redis_url)


def _beat(store: redis.Redis, prefix: str, clock: ManualClock, **more: Any) -> NodeBeat:
    return NodeBeat(store, prefix, name="here:consumer:0", role="consumer", clock=clock, **more)


def _let_beat(clock: ManualClock, beaten: threading.Semaphore) -> None:
    """Move the clock until the beat thread, which may not have begun to wait yet, has beaten once more."""
    assert any(clock.advance(beat.BEAT_S) or beaten.acquire(timeout=0.1) for _ in range(100))


def test_a_stamp_is_read_back_whole(store: redis.Redis, prefix: str) -> None:
    clock = ManualClock()
    _beat(store, prefix, clock, detail=lambda: {"hosted": 3}, slot="1").beat()
    (node,) = read_nodes(store, prefix, clock)
    assert (node.name, node.role, node.slot, node.detail) == ("here:consumer:0", "consumer", "1", {"hosted": 3})
    assert node.stamp_ms == clock.now_ms()
    assert not node.silent


def test_a_node_falls_silent_after_ten_seconds_and_is_dropped_after_a_day(store: redis.Redis, prefix: str) -> None:
    clock = ManualClock()
    _beat(store, prefix, clock).beat()
    clock.advance(10)
    assert not read_nodes(store, prefix, clock)[0].silent
    clock.advance(0.001)
    assert read_nodes(store, prefix, clock)[0].silent
    clock.advance(24 * 3600)
    assert read_nodes(store, prefix, clock) == []


def test_the_stamp_is_that_of_the_loop_not_of_the_beat_thread(store: redis.Redis, prefix: str) -> None:
    clock = ManualClock()
    turned = clock.now_ms()
    beat = _beat(store, prefix, clock, turned_ms=lambda: turned)
    clock.advance(11)
    beat.beat()
    assert read_nodes(store, prefix, clock)[0].silent


def test_it_goes_on_beating_and_leaves_nothing_behind_when_stopped(store: redis.Redis, prefix: str) -> None:
    clock = ManualClock()
    beaten = threading.Semaphore(0)

    def detail() -> dict[str, Any]:
        beaten.release()
        return {}

    beat = _beat(store, prefix, clock, detail=detail).start()
    _let_beat(clock, beaten)
    _let_beat(clock, beaten)
    beat.stop()
    assert read_nodes(store, prefix, clock) == []


def test_forgotten_entries_are_removed_from_the_store(store: redis.Redis, prefix: str) -> None:
    clock = ManualClock()
    _beat(store, prefix, clock).beat()
    clock.advance(24 * 3600 + 1)
    fresh = NodeBeat(store, prefix, name="here:web:0", role="web", clock=clock)
    fresh.beat()
    fresh.forget_gone()
    assert store.hkeys(stamps.key(prefix)) == [b"here:web:0"]


def test_the_loss_and_return_of_the_store_heals(own_store: StandaloneStore, prefix: str) -> None:
    client = redis.Redis.from_url(own_store.url)
    clock = ManualClock()
    attempts = threading.Semaphore(0)

    def detail() -> dict[str, Any]:
        attempts.release()
        return {}

    own_store.kill()
    beat = _beat(client, prefix, clock, detail=detail)
    beat.start()
    own_store.start()
    for _ in range(3):
        _let_beat(clock, attempts)
    assert read_nodes(client, prefix, clock)[0].role == "consumer"
    beat.stop()
