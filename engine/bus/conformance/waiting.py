"""Waiting: as long as asked, never longer, and no wake-up is missed. These tests use real time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from engine.bus.conformance.base import PATIENCE_S, TransportTests, Workbench, bodies, retry, settle
from engine.bus.conformance.promises import keeps, needs
from engine.bus.transport import Delivery, Priority, Receiver, Verdict

#: A wait that no test sits out.
LONG_S = 15.0
#: Well below it: what came by then was not found by the end of the wait.
PROMPT_S = 4.0


class Waiter:
    """A thread that waits in ``receive``."""

    def __init__(self, receiver: Receiver, prompt_s: float = PROMPT_S) -> None:
        self._prompt_s = prompt_s
        self._pool = ThreadPoolExecutor(1)
        self._started = threading.Event()
        self._future: Future[tuple[list[Delivery], float]] = self._pool.submit(self._wait, receiver, LONG_S)
        self._started.wait(PATIENCE_S)

    def _wait(self, receiver: Receiver, wait_s: float) -> tuple[list[Delivery], float]:
        started = time.monotonic()
        self._started.set()
        found = receiver.receive(10, wait_s)
        return found, time.monotonic() - started

    def result(self) -> list[Delivery]:
        """What came; it must have come promptly."""
        found, took_s = self._future.result(PATIENCE_S)
        self._pool.shutdown()
        assert took_s < self._prompt_s
        return found


class WaitingConformance(TransportTests):
    def test_an_empty_wait_lasts_as_long_as_asked(self, bench: Workbench) -> None:
        receiver = bench.receiver()
        started = time.monotonic()

        assert receiver.receive(1, 0.3) == []

        assert 0.28 <= time.monotonic() - started < 2.0

    @pytest.mark.parametrize("priority", list(Priority))
    def test_a_message_wakes_who_waits(self, bench: Workbench, priority: Priority) -> None:
        waiter = Waiter(bench.receiver())
        bench.publish(b"x", priority=priority)
        assert bodies(waiter.result()) == [b"x"]

    def test_no_wake_up_is_missed_between_looking_and_waiting(self, bench: Workbench) -> None:
        # When messages come one by one at any moment of the loop
        receiver = bench.receiver()

        def publish_all() -> None:
            for index in range(200):
                bench.publish(b"m%d" % index)

        started = time.monotonic()
        thread = threading.Thread(target=publish_all)
        thread.start()
        taken = 0
        while taken < 200 and time.monotonic() - started < PATIENCE_S:
            batch = receiver.receive(10, LONG_S)
            settle(receiver, batch)
            taken += len(batch)
        thread.join()

        # Then no single one was found only at the end of a wait
        assert taken == 200
        assert time.monotonic() - started < LONG_S

    def test_a_release_wakes_who_waits(self, bench: Workbench) -> None:
        bench.publish(b"x")
        one = bench.receiver("one")
        delivery = bench.take_one(one)
        waiter = Waiter(bench.receiver("two"))

        settle(one, [delivery], Verdict.RELEASE)

        assert bodies(waiter.result()) == [b"x"]

    def test_a_retry_that_is_due_wakes_who_waits(self, bench: Workbench) -> None:
        bench.publish(b"x")
        one = bench.receiver("one")
        delivery = bench.take_one(one)
        waiter = Waiter(bench.receiver("two"))

        retry(one, delivery)

        assert [found.attempt for found in waiter.result()] == [2]

    def test_a_lease_that_runs_out_wakes_who_waits(self, bench: Workbench, pass_time: Callable[[float], None]) -> None:
        bench.publish(b"x")
        bench.take_one(bench.receiver("one"))
        waiter = Waiter(bench.receiver("two"), PROMPT_S + self.quiet_s + self.lease_ms / 1000)

        pass_time(self.lease_ms / 1000 + 0.01)

        assert [found.attempt for found in waiter.result()] == [2]

    @needs("pause")
    def test_resuming_wakes_who_waits(self, bench: Workbench) -> None:
        bench.publish(b"x")
        bench.admin.pause(bench.topic, bench.group)
        waiter = Waiter(bench.receiver())

        bench.admin.resume(bench.topic, bench.group)

        assert bodies(waiter.result()) == [b"x"]

    @needs("seek")
    def test_moving_the_group_wakes_who_waits(self, bench: Workbench) -> None:
        bench.publish(b"x")
        receiver = bench.receiver()
        bench.drain(receiver)
        waiter = Waiter(receiver)

        bench.admin.seek(bench.topic, bench.group, "beginning")

        assert bodies(waiter.result()) == [b"x"]

    @keeps("K13")
    def test_closing_ends_a_wait(self, bench: Workbench) -> None:
        receiver = bench.receiver()
        waiter = Waiter(receiver)

        receiver.close()

        assert waiter.result() == []

    @keeps("K6", "K13")
    def test_closing_twice_is_fine_and_a_closed_receiver_gets_nothing(self, bench: Workbench) -> None:
        bench.publish(b"x")
        receiver = bench.receiver()
        receiver.close()
        receiver.close()

        assert receiver.receive(1, 0) == []
        assert bodies(bench.drain(bench.receiver("two"))) == [b"x"]
