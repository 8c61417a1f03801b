"""What is done elsewhere: slots are decided as any, given to no worker, and end where nobody is heard of in time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.cron.slots.job import CatchUp, CronJob, JobPolicy
from engine.cron.slots.steps import RunState
from tests.engine.cron.slots.hall import Hall
from tests.engine.cron.slots.places import Places, Seconds
from tests.engine.cron.slots.test_node import Jobs, turn

POLICY = JobPolicy(grace_s=4, catch_up=CatchUp.ALL, elsewhere=True, timeout_s=6, lease_s=3)
AWAY = CronJob("away", 1, Seconds(5), POLICY)


def states(places: Places) -> list[tuple[int, RunState]]:
    rows = sorted(places.database.runs.values(), key=lambda row: row.slot)
    return [(row.slot - places.begin, row.state) for row in rows]


def test_a_slot_is_given_to_nobody_and_ends_after_its_grace() -> None:
    places = Places(AWAY)
    node = Jobs(places, AWAY).node("n1")
    turn(places, node, seconds=8)
    assert states(places) == [(5, RunState.CLAIMED)]
    turn(places, node, seconds=3)
    assert states(places) == [(5, RunState.ABANDONED), (10, RunState.CLAIMED)]
    assert list(places.queue.waiting) == []
    (first, *_) = places.database.runs
    assert places.database.reasons[first].startswith("no ping came until 20")


def test_beside_it_others_are_offered() -> None:
    here = CronJob("here", 1, Seconds(5))
    places = Places(AWAY, here)
    turn(places, Jobs(places, AWAY, here).node("n1"), seconds=6)
    assert [places.database.runs[run].job for run in places.queue.waiting] == ["here"]


@pytest.mark.parametrize(("timeout_s", "state"), [(6, RunState.FAILED), (0, RunState.RUNNING)])
def test_what_began_needs_no_lease_and_has_its_time(timeout_s: float, state: RunState) -> None:
    job = replace(AWAY, policy=replace(POLICY, timeout_s=timeout_s))
    places = Places(job)
    node = Jobs(places, job).node("n1")
    turn(places, node, seconds=6)
    (run,) = places.database.runs
    places.database.change(places.database.runs[run], places.now_s(), state=RunState.RUNNING)
    turn(places, node, seconds=5.75)
    assert places.database.runs[run].state is RunState.RUNNING
    turn(places, node, seconds=20)
    assert places.database.runs[run].state is state
    assert places.database.reasons[run] == ("no end came within 6 s" if timeout_s else "")


def test_nobody_is_blamed_for_what_is_held_by_then() -> None:
    places = Places(AWAY)
    jobs = Jobs(places, AWAY)
    node = jobs.node("n1")
    turn(places, node, seconds=6)
    node.jobs["away"] = replace(AWAY, held="paused: it moves")
    turn(places, node, seconds=4)
    (run, *_) = places.database.runs
    assert places.database.runs[run].state is RunState.SKIPPED
    assert places.database.reasons[run].startswith("paused: it moves; no ping came until 20")


def test_no_worker_begins_it() -> None:
    hall = Hall(POLICY)
    assert hall.worker.run(hall.run, lambda held, stop: pytest.fail("it was begun")) is None
    assert hall.row == (RunState.CLAIMED, "")
    assert not hall.is_held()
