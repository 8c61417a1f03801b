"""A consumer that is held to a limit reads no more than that, leases nothing meanwhile, and stops at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

from engine.core.pacing import Pace
from tests.engine.bus.kit import Bus, Recorder, running, until


class _Gate:
    """Lets go what was put in; thread-safe."""

    why = "closed"

    def __init__(self, *, holds: bool = True) -> None:
        self.holds = holds
        self._lock = threading.Lock()
        self.left = 0
        #: What was taken and not given back.
        self.gone = 0
        self.asked: list[int] = []

    def put(self, count: int) -> None:
        with self._lock:
            self.left += count

    def take(self, most: int) -> int:
        with self._lock:
            self.asked.append(most)
            got = min(most, self.left) if self.holds else most
            self.left -= got if self.holds else 0
            self.gone += got
            return got

    def give_back(self, count: int) -> None:
        with self._lock:
            self.left += count
            self.gone -= count

    def again_s(self) -> float:
        return 0.01


def _as_time_passes(bus: Bus, true: Callable[[], bool]) -> None:
    """Until it is so, on a clock that stands still by itself."""

    def moved() -> bool:
        bus.clock.advance(0.02)
        return true()

    until(moved)


def test_no_more_is_read_than_the_limit_lets_through_and_nothing_is_leased_meanwhile(any_bus: Bus) -> None:
    gate, handler = _Gate(), Recorder()
    for number in range(20):
        any_bus.publish({"n": number})
    with running(any_bus.consumer(handler, pacing=gate)):
        _as_time_passes(any_bus, lambda: len(gate.asked) > 3)
        assert handler.calls == []
        gate.put(7)
        _as_time_passes(any_bus, lambda: len(handler.calls) == 7 and gate.left == 0)
        any_bus.facts.wait_for("settled", 7)
        assert any_bus.unsettled() == 13
        gate.put(100)
        _as_time_passes(any_bus, lambda: len(handler.calls) == 20)
        any_bus.facts.wait_for("settled", 20)
    # What an idle reader had taken for messages that did not come goes back as its last read ends.
    until(lambda: gate.gone == 20)
    assert max(gate.asked) <= 40


def test_the_rate_holds_by_the_consumers_own_clock(bus: Bus) -> None:
    pace, handler = Pace(2, bus.clock), Recorder()
    for number in range(6):
        bus.publish({"n": number})
    with running(bus.consumer(handler, pacing=pace)):
        began = bus.clock.monotonic()
        _as_time_passes(bus, lambda: len(handler.calls) == 5)
        assert bus.clock.monotonic() - began >= 2.0


def test_who_is_held_stops_at_once(any_bus: Bus) -> None:
    gate = _Gate()
    any_bus.publish({"n": 1})
    consumer = any_bus.consumer(Recorder(), pacing=gate)
    consumer.start()
    _as_time_passes(any_bus, lambda: len(gate.asked) > 1)
    left = consumer.stop(10.0)
    assert (left.running, left.unsettled, left.released) == (0, 0, 0)


def test_what_nobody_limits_is_told_afterwards(any_bus: Bus) -> None:
    gate, handler = _Gate(holds=False), Recorder()
    for number in range(20):
        any_bus.publish({"n": number})
    with running(any_bus.consumer(handler, pacing=gate)):
        any_bus.facts.wait_for("settled", 20)
    assert gate.gone == 20
