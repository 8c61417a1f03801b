"""Slots that are done in parts: how these are called, decided, offered, and meet each other."""

from __future__ import annotations

import pytest

from engine.core.errors import Unavailable
from engine.cron.slots.driving import perform
from engine.cron.slots.job import CatchUp, CronJob, JobPolicy, Overlap
from engine.cron.slots.overlap import judged_overlap
from engine.cron.slots.parts import Shard, host_of, host_of_owner, may_do, node_of, on_nodes, shard_of, shards
from engine.cron.slots.planning import NO_NODE, Decision, decide, divided
from engine.cron.slots.scheduling import RunSweeper, schedule
from engine.cron.slots.steps import Beginning, RunRow, RunState, WorkingNodes
from engine.cron.slots.timetable import Timetable
from tests.engine.cron.slots.places import Places, Seconds


def test_the_name_of_a_part_says_what_it_is() -> None:
    assert shards(1) == ("",)
    assert shards(3) == ("0/3", "1/3", "2/3")
    assert on_nodes(("web-1", "a/b")) == ("@web-1", "@a/b")
    assert [shard_of(part) for part in ("", "2/3", "@a/b")] == [None, Shard(2, 3), None]
    assert [node_of(part) for part in ("", "2/3", "@a/b")] == ["", "", "a/b"]


@pytest.mark.parametrize(
    ("part", "may"), [("", True), ("0/2", True), ("@web-1", True), ("@web-2", False), ("@web", False)]
)
def test_what_is_for_one_node_no_other_may_do(part: str, may: bool) -> None:
    assert may_do("web-1:jobs:0:4711#ab12", part) is may


def test_a_slot_that_runs_is_decided_for_each_part_and_one_that_is_skipped_once() -> None:
    job = CronJob("close", 1, Seconds(10), JobPolicy(shards=2, grace_s=5, catch_up=CatchUp.LAST))
    decisions = divided(job, decide(job, [10, 20], 21.0), ())
    assert [(each.slot, each.part, bool(each.skipped)) for each in decisions] == [
        (10, "", True),
        (20, "0/2", False),
        (20, "1/2", False),
    ]


def test_on_nodes_it_is_decided_for_those_that_live_and_without_any_it_is_skipped() -> None:
    job = CronJob("close", 1, Seconds(10), JobPolicy(on_nodes=True))
    assert divided(job, [Decision(10)], ("a", "b")) == [Decision(10, part="@a"), Decision(10, part="@b")]
    assert divided(job, [Decision(10)], ()) == [Decision(10, NO_NODE)]


def scheduled(places: Places, job: CronJob) -> None:
    table = Timetable()
    table.put(job, places.begin)
    places.clock.advance(1.0)
    perform(schedule(table, table.due(places.now_s(), 9), "n1", places.now_s()), places.act, places.clock)


def test_what_is_for_a_node_is_offered_to_it_alone() -> None:
    job = CronJob("close", 1, Seconds(), JobPolicy(on_nodes=True))
    places = Places(job)
    places.nodes = ("a", "b")
    scheduled(places, job)
    rows = list(places.database.runs.values())
    assert [row.part for row in rows] == ["@a", "@b"]
    assert (places.queue.waiting, places.queue.only_on) == ([1, 2], {1: "a", 2: "b"})
    # Also when it is offered again.
    places.queue.only_on.clear()
    places.clock.advance(20.0)
    perform(RunSweeper().sweep({"close": job}, places.now_s()), places.act, places.clock)
    assert places.queue.only_on == {1: "a", 2: "b"}


def test_who_cannot_be_asked_for_the_nodes_decides_nothing() -> None:
    job = CronJob("close", 1, Seconds(), JobPolicy(on_nodes=True))
    places = Places(job)
    places.away.add(WorkingNodes)
    with pytest.raises(Unavailable):
        scheduled(places, job)
    assert (places.database.runs, places.database.cursors["close"].at) == ({}, places.begin)


@pytest.mark.parametrize(
    ("overlap", "same", "other"),
    [
        (Overlap.SKIP, Beginning.REFUSED, Beginning.BEGUN),
        (Overlap.QUEUE, Beginning.WAITS, Beginning.BEGUN),
        (Overlap.CANCEL, Beginning.WAITS, Beginning.BEGUN),
        # A limit is one of the job, whatever the parts.
        (Overlap.RUN, Beginning.WAITS, Beginning.WAITS),
    ],
)
def test_a_part_meets_the_same_part_of_other_slots(overlap: Overlap, same: Beginning, other: Beginning) -> None:
    policy = JobPolicy(overlap=overlap, shards=2, most_at_once=1)
    before = RunRow(1, "close", 10, RunState.RUNNING, 1, 1, 0.0, part="0/2")
    assert (
        judged_overlap(RunRow(3, "close", 20, RunState.CLAIMED, 0, 1, 0.0, part="0/2"), [before], policy).beginning
        is same
    )
    assert (
        judged_overlap(RunRow(4, "close", 20, RunState.CLAIMED, 0, 1, 0.0, part="1/2"), [before], policy).beginning
        is other
    )


@pytest.mark.parametrize("host", ["web-1", "web-1.example", "fe80::1"])
def test_a_host_is_known_by_what_its_processes_and_its_workers_are_called(host: str) -> None:
    assert host_of(f"{host}:jobs:0") == host_of_owner(f"{host}:jobs:0:4711#a") == host
    assert may_do(f"{host}:jobs:0:4711#a", f"@{host}")
    assert not may_do(f"{host}0:jobs:0:4711#a", f"@{host}")
