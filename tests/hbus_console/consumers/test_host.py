from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError
from structlog.testing import capture_logs

from engine.core.clock import ManualClock
from hbus_console.consumers.host import HELD_MOST, Key, SubscriptionHost, Wanted

CREATED: Key = ("booking.created", "availability")
CANCELLED: Key = ("booking.cancelled", "partner-sync")


class Recorder:
    """Stands for the engine's consumer: remembers what it was asked."""

    def __init__(self, *, fails: Exception | None = None) -> None:
        self.asked: list[Any] = []
        self.in_flight = 0
        self._fails = fails

    def start(self) -> None:
        if self._fails:
            raise self._fails
        self.asked.append("start")

    def stop(self, drain_s: float = 30.0) -> None:
        self.asked.append(("stop", drain_s))

    def pause(self) -> None:
        self.asked.append("pause")

    def resume(self) -> None:
        self.asked.append("resume")

    def set_concurrency(self, threads: int) -> None:
        self.asked.append(("threads", threads))

    def status(self) -> Any:
        return SimpleNamespace(state="running", in_flight=self.in_flight)


class Rows:
    """What is wanted, to be changed at will."""

    def __init__(self) -> None:
        self.wanted: dict[Key, Wanted] = {}
        self.made: list[Recorder] = []
        self.error: Exception | None = None

    def put(
        self,
        key: Key,
        version: int = 1,
        *,
        paused: bool = False,
        fails: Exception | None = None,
        concurrency: int = 4,
    ) -> None:
        def make() -> Recorder:
            self.made.append(Recorder(fails=fails))
            return self.made[-1]

        self.wanted[key] = Wanted((version,), paused, make, concurrency)

    def __call__(self) -> dict[Key, Wanted]:
        if self.error:
            raise self.error
        return self.wanted


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.fixture
def host(rows: Rows) -> SubscriptionHost:
    return SubscriptionHost(rows, clock=ManualClock(), change_drain_s=7)


def is_created(key: Key) -> bool:
    return key == CREATED


def test_what_is_wanted_is_started_once(rows: Rows, host: SubscriptionHost) -> None:
    rows.put(CREATED)
    rows.put(CANCELLED)
    host.reconcile()
    host.reconcile()
    assert [consumer.asked for consumer in rows.made] == [["start"], ["start"]]
    assert host.statuses().keys() == {CREATED, CANCELLED}


def test_what_is_wanted_no_more_is_drained(rows: Rows, host: SubscriptionHost) -> None:
    rows.put(CREATED)
    host.reconcile()
    rows.wanted.clear()
    host.reconcile()
    assert rows.made[0].asked == ["start", ("stop", 7)]
    assert host.statuses() == {}


def test_another_version_drains_the_old_one_before_the_new_one_starts(rows: Rows, host: SubscriptionHost) -> None:
    rows.put(CREATED)
    host.reconcile()
    old = rows.made[0]
    rows.put(CREATED, version=2)
    made_before = []
    rows.wanted[CREATED] = Wanted((2,), False, lambda: made_before.append(list(old.asked)) or Recorder())
    host.reconcile()
    assert made_before == [["start", ("stop", 7)]]


def test_pause_and_resume_follow_the_row(rows: Rows, host: SubscriptionHost) -> None:
    rows.put(CREATED, paused=True)
    host.reconcile()
    host.reconcile()
    assert rows.made[0].asked == ["pause", "start"]
    rows.put(CREATED)
    host.reconcile()
    assert rows.made[0].asked == ["pause", "start", "resume"]


def test_a_host_can_hold_its_own_on_top_of_the_row(rows: Rows, host: SubscriptionHost) -> None:
    rows.put(CREATED)
    rows.put(CANCELLED)
    host.reconcile()
    assert host.pause(is_created) == [CREATED]
    host.reconcile()
    assert [consumer.asked for consumer in rows.made] == [["start", "pause"], ["start"]]
    assert host.resume(lambda _: True) == [CREATED]
    host.reconcile()
    assert rows.made[0].asked == ["start", "pause", "resume"]


def test_what_was_drained_here_stays_away_until_resumed(rows: Rows, host: SubscriptionHost) -> None:
    rows.put(CREATED)
    host.reconcile()
    assert host.drain(is_created) == [CREATED]
    host.reconcile()
    host.reconcile()
    assert rows.made[0].asked == ["start", ("stop", 7)]
    assert len(rows.made) == 1
    assert host.idle() == {CREATED: "drained on this worker"}
    host.resume(is_created)
    host.reconcile()
    assert len(rows.made) == 2
    assert host.idle() == {}


def test_what_was_stopped_is_told_of_until_its_handlers_have_ended(rows: Rows, host: SubscriptionHost) -> None:
    rows.put(CREATED)
    host.reconcile()
    rows.made[0].in_flight = 2
    host.drain(is_created)
    host.reconcile()
    # Its drain ran out of time, and two of its handlers still run
    assert host.statuses()[CREATED].in_flight == 2
    assert host.idle() == {CREATED: "draining on this worker"}
    rows.made[0].in_flight = 0
    host.reconcile()
    assert host.statuses() == {}
    assert host.idle() == {CREATED: "drained on this worker"}


def test_a_long_drain_is_no_hanging_loop(rows: Rows) -> None:
    clock = ManualClock()
    host = SubscriptionHost(rows, clock=clock)
    rows.put(CREATED)
    host.start()
    eventually(lambda: len(host.statuses()) == 1)
    go_on = threading.Event()
    rows.made[0].stop = lambda drain_s=30.0: go_on.wait(60)  # type: ignore[method-assign, assignment]
    host.drain(is_created)
    eventually(lambda: host.idle() == {CREATED: "draining on this worker"})
    clock.advance(60)
    eventually(lambda: host.turned_ms == clock.now_ms())
    assert not go_on.is_set()
    go_on.set()
    eventually(lambda: host.statuses() == {})
    host.stop(1)


def test_while_the_database_is_away_what_runs_goes_on(rows: Rows, host: SubscriptionHost) -> None:
    rows.put(CREATED)
    host.reconcile()
    rows.error = OperationalError("gone")
    host.reconcile()
    assert rows.made[0].asked == ["start"]
    assert host.error == "OperationalError: gone"
    rows.error = None
    host.reconcile()
    assert host.error == ""


def test_one_that_cannot_start_is_told_and_tried_again_and_keeps_no_other(rows: Rows, host: SubscriptionHost) -> None:
    rows.put(CREATED, fails=ConnectionError("no store"))
    rows.put(CANCELLED)
    host.reconcile()
    assert host.idle() == {CREATED: "ConnectionError: no store"}
    assert host.statuses().keys() == {CANCELLED}
    rows.put(CREATED)
    host.reconcile()
    assert host.idle() == {}
    assert host.statuses().keys() == {CREATED, CANCELLED}


def test_the_loop_looks_at_once_and_whenever_woken_and_stop_drains_side_by_side(rows: Rows) -> None:
    clock = ManualClock()
    host = SubscriptionHost(rows, clock=clock)
    rows.put(CREATED)
    host.start()
    eventually(lambda: len(host.statuses()) == 1)
    rows.put(CANCELLED)
    host.reconcile_soon()
    eventually(lambda: len(host.statuses()) == 2)
    host.stop(3)
    host.stop(3)
    assert [consumer.asked[-1] for consumer in rows.made] == [("stop", 3), ("stop", 3)]


def test_once_stopping_nothing_new_is_started(rows: Rows, host: SubscriptionHost) -> None:
    rows.put(CREATED)
    host.request_stop()
    host.reconcile()
    assert rows.made[0].asked == []
    assert host.statuses() == {}


def test_a_hanging_loop_shows_by_its_stamp(rows: Rows) -> None:
    clock = ManualClock()
    entered, go_on = threading.Event(), threading.Event()

    def hang() -> dict[Key, Wanted]:
        entered.set()
        go_on.wait(60)
        return {}

    host = SubscriptionHost(hang, clock=clock)
    begun = host.turned_ms
    host.start()
    entered.wait(60)
    clock.advance(60)
    assert host.turned_ms == begun
    go_on.set()
    eventually(lambda: host.turned_ms == begun + 60_000)
    host.stop(1)


def eventually(truth: Callable[[], bool]) -> None:
    """Wait for another thread, not for time to pass."""
    tries = threading.Event()
    for _ in range(2_000):
        if truth():
            return
        tries.wait(0.005)
    raise AssertionError("it never became true")


def test_another_number_of_threads_needs_no_restart(rows: Rows, host: SubscriptionHost) -> None:
    rows.put(CREATED, concurrency=4)
    host.reconcile()
    rows.put(CREATED, concurrency=9)
    host.reconcile()
    host.reconcile()
    (consumer,) = rows.made
    assert consumer.asked == ["start", ("threads", 9)]


def test_more_than_a_process_holds_well_is_said_once_until_it_is_over() -> None:
    rows = Rows()
    host = SubscriptionHost(rows, clock=ManualClock())

    def said(number: int) -> list[int]:
        rows.wanted.clear()
        for each in range(number):
            rows.put((f"t{each}", "g"))
        with capture_logs() as lines:
            host.reconcile()
            host.reconcile()
        return [line["hosted"] for line in lines if line["event"].startswith("more subscriptions than")]

    assert said(HELD_MOST) == []
    assert said(HELD_MOST + 1) == [HELD_MOST + 1]
    assert said(HELD_MOST + 2) == []
    assert said(HELD_MOST) == []
    assert said(HELD_MOST + 1) == [HELD_MOST + 1]
    host.stop(0.1)
