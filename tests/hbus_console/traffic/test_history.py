from __future__ import annotations

import threading

import pytest

from engine.core.clock import ManualClock
from hbus_console.traffic import flow
from hbus_console.traffic.history import Histories, History
from hbus_console.ui.timerange import TimeRange

HOUR = TimeRange(0, 3_600_000, "Last hour", "")
ALL = ("*",)


class Ledger:
    """Counts how often it is read and can be made to wait."""

    def __init__(self) -> None:
        self.reads = 0
        self.read_again = threading.Event()

    def __call__(self, scopes: tuple[str, ...], chosen: TimeRange) -> History:
        self.reads += 1
        if self.reads > 1:
            self.read_again.set()
        return History(flow.Series(10, settled_total=self.reads), flow.LagSeries(10, [], []), {}, 0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_many_looks_are_one_reading(clock: ManualClock) -> None:
    ledger = Ledger()
    histories = Histories(ledger, clock)
    assert {histories.of(ALL, HOUR).series.settled_total for _ in range(20)} == {1}
    assert ledger.reads == 1


def test_nobody_waits_for_a_newer_answer_which_comes_with_the_next_look(clock: ManualClock) -> None:
    ledger = Ledger()
    histories = Histories(ledger, clock)
    histories.of(ALL, HOUR)
    clock.advance(10)
    assert histories.of(ALL, HOUR).series.settled_total == 1
    assert ledger.read_again.wait(5)
    histories._thread.shutdown()
    assert histories.of(ALL, HOUR).series.settled_total == 2


def test_an_answer_too_old_is_not_shown(clock: ManualClock) -> None:
    histories = Histories(Ledger(), clock)
    histories.of(ALL, HOUR)
    clock.advance(60)
    assert histories.of(ALL, HOUR).series.settled_total == 2


def test_other_sights_and_other_ranges_are_other_answers(clock: ManualClock) -> None:
    ledger = Ledger()
    histories = Histories(ledger, clock)
    day = TimeRange(0, 86_400_000, "Last 24 hours", "range=24h")
    stretch = TimeRange(0, 3_600_000, "00:00 to 01:00", "from=0&to=3600000", moving=False)
    found = [histories.of(*asked) for asked in ((ALL, HOUR), (("a.*",), HOUR), (ALL, day), (ALL, stretch))]
    assert [history.series.settled_total for history in found] == [1, 2, 3, 4]


def test_switched_off_it_remembers_nothing(clock: ManualClock) -> None:
    histories = Histories(Ledger(), clock, fresh_s=0)
    assert [histories.of(ALL, HOUR).series.settled_total for _ in range(3)] == [1, 2, 3]


def test_it_stays_small(clock: ManualClock) -> None:
    histories = Histories(Ledger(), clock)
    for number in range(100):
        histories.of((f"t{number}",), HOUR)
    assert len(histories._known) == 32
