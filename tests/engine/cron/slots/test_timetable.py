"""Which jobs a node looks at, and when."""

from __future__ import annotations

from dataclasses import dataclass

from engine.cron.slots.job import CronJob
from engine.cron.slots.steps import Cursor, SlotKey
from engine.cron.slots.timetable import LOOK_AGAIN_S, Timetable

BEGIN = 1_000


@dataclass
class Counted:
    """Slots every so many seconds; counts how often it was asked."""

    period: int
    last: int = 10_000_000
    asked: int = 0

    def next_after(self, at: int) -> int | None:
        self.asked += 1
        slot = (at // self.period + 1) * self.period
        return slot if slot <= self.last else None


def table_of(**periods: int) -> Timetable:
    table = Timetable()
    for name, period in periods.items():
        table.put(CronJob(name, 1, Counted(period)), BEGIN)
    return table


def test_the_longest_due_come_first_and_stay_due_until_something_is_learnt() -> None:
    table = table_of(late=30, soon=3, first=7)
    assert table.next_at() == 1_001
    assert table.due(1_000, 10) == []
    assert table.due(1_010, 10) == ["first", "soon"]
    assert table.due(1_010, 1) == table.due(1_010, 1) == ["first"]
    table.learn(["first"], [Cursor("first", 1, 1_008)])
    assert table.due(1_010, 10) == ["soon"]
    assert [slots for _, slots in table.come("soon", 1_010)] == [[1_002, 1_005, 1_008]]
    assert list(table.come("first", 1_010)) == []


def test_what_came_lately_comes_before_what_is_long_due() -> None:
    table = table_of(backlog=3, other=4, now=10)
    table.learn(["now"], [Cursor("now", 1, 1_990)])
    assert table.due(2_000, 10) == ["now", "backlog", "other"]
    assert table.due(2_000, 1) == ["now"]


def test_who_could_not_claim_looks_again_a_little_later_or_when_the_slot_has_come_by_the_store() -> None:
    table = table_of(a=10, b=10)
    table.look_again([SlotKey("a", 1, 1_010)], 1_010.0, 1_010.2)
    # The node's clock is 90 s ahead.
    table.look_again([SlotKey("b", 1, 1_010)], 1_010.0, 920.0)
    assert table.due(1_010, 10) == []
    assert table.due(1_010 + LOOK_AGAIN_S, 10) == ["a"]
    assert table.due(1_099.9, 10) == ["a"]
    assert table.due(1_100, 10) == ["b", "a"]


def test_a_job_that_is_gone_or_has_another_version_waits_until_it_is_put_anew() -> None:
    table = table_of(gone=10, changed=10, dropped=10)
    table.learn(["gone", "changed"], [Cursor("changed", 2, BEGIN)])
    table.drop("dropped")
    table.drop("never there")
    assert (table.due(2_000, 10), table.next_at(), len(table)) == ([], None, 1)
    table.put(CronJob("changed", 2, Counted(5)), 1_500)
    assert table.due(1_505, 10) == ["changed"]


def test_a_job_without_another_slot_is_never_due() -> None:
    table = Timetable()
    table.put(CronJob("once", 1, Counted(10, last=1_010)), BEGIN)
    assert table.due(1_010, 10) == ["once"]
    table.learn(["once"], [Cursor("once", 1, 1_010)])
    assert (table.due(99_999, 10), table.next_at()) == ([], None)


def test_a_change_asks_nothing_of_the_others() -> None:
    table, others = Timetable(), [Counted(60) for _ in range(1_000)]
    for number, slots in enumerate(others):
        table.put(CronJob(f"job{number}", 1, slots), BEGIN)
    asked = [slots.asked for slots in others]
    table.put(CronJob("job7", 2, Counted(5)), BEGIN)
    table.put(CronJob("new", 1, Counted(5)), BEGIN)
    assert sorted(table.due(1_005, 10)) == ["job7", "new"]
    assert [slots.asked for slots in others] == asked
