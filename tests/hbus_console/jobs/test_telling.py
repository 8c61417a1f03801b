"""What a node decides is told in facts: they are what its metrics and its alerts count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.core.facts import MemoryFacts
from engine.cron.slots.job import CronJob, JobPolicy
from engine.cron.slots.node import Changed, CronNode
from engine.cron.slots.planning import Decision
from engine.cron.slots.steps import Cursor, GiveUp, Opening, OpenRuns, RunState
from engine.cron.subjects import job_subject
from hbus_console.jobs.telling import telling
from tests.engine.cron.slots.places import Places, Seconds

CLOSE = CronJob("close", 1, Seconds(), JobPolicy(lease_s=5, catch_up_window_s=20))
HELD = replace(CLOSE, held="paused: a release")


@pytest.fixture
def places() -> Places:
    return Places(CLOSE)


@pytest.fixture
def facts() -> MemoryFacts:
    return MemoryFacts()


@pytest.fixture
def node(places: Places, facts: MemoryFacts) -> CronNode:
    """One that knows a job which is held."""
    told = [Changed("close", HELD, places.begin)]

    def changes() -> list[Changed]:
        return [told.pop()] if told else []

    made = CronNode("n1", telling(places.act, facts, "n1", places.clock), changes, places.store_time, places.clock)
    made.tick()
    return made


def said(facts: MemoryFacts) -> list[tuple[str, int, str]]:
    assert {each.subject for each in facts.batches} <= {job_subject("close")}
    return [(each.kind, each.count, each.node) for each in facts.batches]


def test_slots_that_are_skipped_are_told_together(node: CronNode, places: Places, facts: MemoryFacts) -> None:
    places.clock.advance(3)
    node.tick()
    assert said(facts) == [("slot_skipped", 3, "n1")]


def test_a_run_that_nobody_began_is_told_of(node: CronNode, places: Places, facts: MemoryFacts) -> None:
    places.claimed()
    places.clock.advance(21)
    node.sweep()
    assert said(facts) == [("run_abandoned", 1, "n1")]


def test_a_run_whose_lease_is_gone_is_told_of_once(node: CronNode, places: Places, facts: MemoryFacts) -> None:
    (run,) = places.claimed()
    database = places.database
    database.change(database.runs[run], places.now_s(), state=RunState.RUNNING, epoch=1)
    for _ in range(4):
        node.sweep()
        places.clock.advance(3)
    assert said(facts) == [("run_lost", 1, "n1")]


def test_what_another_has_decided_before_is_not_told_again(places: Places, facts: MemoryFacts) -> None:
    act = telling(places.act, facts, "n2", places.clock)
    (run,) = places.claimed()
    seen = places.database.runs[run]
    places.database.change(seen, places.now_s(), state=RunState.RUNNING, epoch=1)
    assert not act(GiveUp(seen, RunState.ABANDONED, "no worker began it"))
    stale = Cursor("close", 1, places.begin - 1)
    assert not act(OpenRuns((Opening(stale, (Decision(places.begin, "paused"),)),), "n2")).cursors
    assert said(facts) == []
