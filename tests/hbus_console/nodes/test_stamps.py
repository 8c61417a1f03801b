from __future__ import annotations

import json
import threading
from typing import Any

import pytest
import redis

from engine.core.clock import ManualClock
from hbus_console.nodes import beat, stamps
from hbus_console.nodes.beat import NodeBeat
from hbus_console.nodes.stamps import of_role, read_nodes
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


def test_a_node_whose_loop_hangs_is_silent_after_ten_seconds(store: redis.Redis, prefix: str) -> None:
    clock = ManualClock()
    turned = clock.now_ms()
    beat = _beat(store, prefix, clock, turned_ms=lambda: turned)
    clock.advance(10)
    beat.beat()
    found = read_nodes(store, prefix, clock)
    assert not found[0].silent
    assert (of_role(found, "consumer"), of_role(found, "jobs")) == (found, [])
    clock.advance(0.001)
    found = read_nodes(store, prefix, clock)
    assert found[0].silent
    assert of_role(found, "consumer") == []


def test_a_node_that_stands_still_is_silent_after_five_seconds_and_dropped_after_a_day(
    store: redis.Redis, prefix: str
) -> None:
    clock = ManualClock()
    _beat(store, prefix, clock).beat()
    clock.advance(5)
    found = read_nodes(store, prefix, clock)
    assert not found[0].silent
    assert (of_role(found, "consumer"), of_role(found, "jobs")) == (found, [])
    clock.advance(0.001)
    found = read_nodes(store, prefix, clock)
    assert found[0].silent
    assert of_role(found, "consumer") == []
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


GOOD = {"role": "consumer", "pid": 1, "host": "h", "slot": "0", "started_ms": 1_790_000_000_000,
        "stamp_ms": 1_790_000_000_000}  # fmt: skip


def stamp(**changed: Any) -> bytes:
    return json.dumps({**GOOD, **changed}).encode()


UNREADABLE = {
    "nothing": b"",
    "no JSON": b"\xff{",
    "a list": b"[]",
    "too few parts": b'{"role": "consumer"}',
    "a tree": b"[" * 100_000,
    "a detail that is a tree": stamp(detail={"a": 1}).replace(b"1}}", b"[" * 100_000),
    "a pid as text": stamp(pid="1"),
    "a moment after all calendars": stamp(stamp_ms=2**62),
    "a beginning beyond all numbers": stamp(started_ms=10**30),
    "half a letter": stamp(host="\ud800"),
    "a clock that is none": stamp(clock=[1]),
}
UNSPEAKABLE: dict[str, Any] = {
    "consumers as a number": {"consumers": 5},
    "a consumer as text": {"consumers": ["booking.created"]},
    "a topic as a list": {"consumers": [{"topic": [], "group": "g"}]},
    "a count as text": {"consumers": [{"topic": "t", "group": "g", "in_flight": "x"}]},
    "a count beyond all numbers": {"consumers": [{"topic": "t", "group": "g", "unsettled": 10**30}]},
    "an age without end": {"consumers": [{"topic": "t", "group": "g", "loop_age_s": 1e308}]},
    "hung without a list": {"consumers": [{"topic": "t", "group": "g", "hung": 3}]},
    "hung of nothing": {"consumers": [{"topic": "t", "group": "g", "hung": [None]}]},
    "idle as text": {"idle": "none"},
    "a duty without numbers": {"duties": [{"name": "d", "ticks": "many"}]},
    "a duty of no time": {"duties": [{"name": "d", "last_tick_ms": 2**62}]},
    "connections as text": {"open": "door"},
}


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_stamp_that_cannot_be_read_is_left_out_and_said_once(
    store: redis.Redis, prefix: str, raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    clock, name = ManualClock(), f"{prefix}:\udcff".encode("utf-8", "surrogateescape")
    store.hset(stamps.key(prefix), name, raw)
    _beat(store, prefix, clock).beat()
    for _ in range(3):
        assert [node.name for node in read_nodes(store, prefix, clock)] == ["here:consumer:0"]
    assert len([line for line in caplog.messages if "cannot be read" in line and prefix in line]) == 1


@pytest.mark.parametrize("detail", UNSPEAKABLE.values(), ids=UNSPEAKABLE.keys())
def test_a_node_whose_detail_cannot_be_read_is_alive_all_the_same(
    store: redis.Redis, prefix: str, detail: dict[str, Any]
) -> None:
    clock = ManualClock()
    store.hset(stamps.key(prefix), "there:consumer:0", stamp(detail=detail))
    (node,) = read_nodes(store, prefix, clock)
    assert (node.name, node.silent, node.detail) == ("there:consumer:0", False, {})


def test_who_starts_beside_an_unreadable_stamp_beats_on_and_removes_it(store: redis.Redis, prefix: str) -> None:
    clock = ManualClock()
    beaten = threading.Semaphore(0)

    def detail() -> dict[str, Any]:
        beaten.release()
        return {}

    for index, raw in enumerate(UNREADABLE.values()):
        store.hset(stamps.key(prefix), f"n{index}", raw)
    beat = _beat(store, prefix, clock, detail=detail).start()
    for _ in range(3):
        _let_beat(clock, beaten)
    assert store.hkeys(stamps.key(prefix)) == [b"here:consumer:0"]
    beat.stop()


def _fails() -> dict[str, Any]:
    raise RuntimeError("no report")


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        (lambda: {"duties": [{"name": "trim", "last_error": "No such file: '\udcff'"}]},
         {"duties": [{"name": "trim", "last_error": "No such file: '?'"}]}),
        (_fails, {}),
        (lambda: {"a": object()}, {}),
        (lambda: {"open": float("inf")}, {}),
    ],
    ids=["half a letter", "it raises", "no JSON", "no number"],
)  # fmt: skip
def test_no_detail_keeps_a_process_from_stamping(
    store: redis.Redis, prefix: str, detail: Any, told: dict[str, Any]
) -> None:
    clock = ManualClock()
    _beat(store, prefix, clock, detail=detail).beat()
    (node,) = read_nodes(store, prefix, clock)
    assert node.detail == told


def test_the_beat_outlives_an_error_that_nobody_expects(store: redis.Redis, prefix: str) -> None:
    clock = ManualClock()
    turned = threading.Semaphore(0)
    broken = True

    def turned_ms() -> int:
        turned.release()
        if broken:
            raise ValueError("half a \udcff letter")
        return clock.now_ms()

    beat = _beat(store, prefix, clock, turned_ms=turned_ms).start()
    for _ in range(2):
        _let_beat(clock, turned)
    assert read_nodes(store, prefix, clock) == []
    broken = False
    for _ in range(2):
        _let_beat(clock, turned)
    assert [node.name for node in read_nodes(store, prefix, clock)] == ["here:consumer:0"]
    beat.stop()
