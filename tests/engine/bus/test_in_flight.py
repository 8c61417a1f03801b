"""What is in flight, while the store hands out again what it has just had back."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from engine.bus.consuming.dispatch import InFlight, InFlightTable
from engine.bus.policy import RetryPolicy
from engine.bus.transport import Delivery, Receiver, Settlement
from engine.core.clock import ManualClock
from tests.engine.bus.kit import PATIENCE_S, Bus, FaultyTransport, Recorder, running, until

#: How long a thread is given to do what it must not do, in seconds; with what these tests hold to, it is waited whole.
GRACE_S = 0.1


def delivery(receipt: str) -> Delivery:
    return Delivery(receipt, "1-0", b"{}", 1)


def test_a_lease_that_ran_out_unnoticed_is_renewed_and_not_run_twice() -> None:
    table = InFlightTable()
    (held,) = table.take([delivery("1-0|1")], 0.0)
    held.lose()
    assert table.take([delivery("1-0|2")], 5.0) == []
    assert (held.delivery.receipt, held.leased_at, held.lost) == ("1-0|2", 5.0, False)


def test_what_comes_again_while_its_settling_is_under_way_is_new_once_that_is_known() -> None:
    table = InFlightTable()
    (first,) = table.take([delivery("1-0|1")], 0.0)
    taken: list[InFlight] = []
    reader = threading.Thread(target=lambda: taken.extend(table.take([delivery("1-0|2")], 5.0)))
    with table.settling:
        reader.start()
        reader.join(GRACE_S)
        table.drop(first)
    reader.join(PATIENCE_S)
    assert [held.delivery.receipt for held in taken] == ["1-0|2"]
    assert taken[0] is not first
    assert len(table) == 1


class Overtaking(FaultyTransport):
    """The store's answer to a settlement comes after it has handed the same message out again."""

    def __init__(self, inner: FaultyTransport) -> None:
        super().__init__(inner)
        self.given = threading.Semaphore(0)

    def receiver(self, topic: str, group: str, **more: Any) -> Receiver:
        return _Overtaking(self, super().receiver(topic, group, **more))


class _Overtaking:
    def __init__(self, owner: Overtaking, inner: Receiver) -> None:
        self._owner = owner
        self._inner = inner
        self.extend, self.close = inner.extend, inner.close

    def receive(self, limit: int, wait_s: float) -> list[Delivery]:
        found = self._inner.receive(limit, wait_s)
        for _ in found:
            self._owner.given.release()
        return found

    def settle(self, batch: Sequence[Settlement]) -> list[bool]:
        results = self._inner.settle(batch)
        if any(each.attempt for each in batch):
            assert self._owner.given.acquire(timeout=PATIENCE_S)
            # Its reader is given the time to take it for what is still held.
            threading.Event().wait(GRACE_S)
        return results


def test_a_retry_that_overtakes_the_answer_to_its_settling_is_made(bus: Bus, clock: ManualClock) -> None:
    transport = Overtaking(bus.transport)
    failed = threading.Event()

    def fail_once(message: Any, context: Any) -> None:
        if not failed.is_set():
            failed.set()
            assert transport.given.acquire(timeout=PATIENCE_S)
            raise ValueError("once")

    recorder = Recorder(fail_once)
    bus.publish({"n": 1})
    with running(bus.consumer(recorder, transport=transport, retry=RetryPolicy(3, (0.001,)))):
        until(lambda: len(recorder.calls) == 2, between=lambda: clock.advance(0.001))
        until(lambda: bus.unsettled() == 0)
    assert not bus.facts.of("lease_lost")
