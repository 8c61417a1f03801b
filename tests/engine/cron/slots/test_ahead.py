"""What is decided before it comes is offered when it has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.cron.slots.job import JobPolicy
from engine.cron.slots.node import Changed, CronNode
from engine.cron.slots.steps import ClaimSlots, ReadOpen, SlotClaims, SlotKey
from tests.engine.cron.slots.places import Places
from tests.engine.cron.slots.test_node import RATES, Jobs, turn


def decided(ahead_s: float = 0.4) -> tuple[Places, CronNode]:
    """A node that has decided a slot which comes in 0.3 s."""
    places = Places(RATES)
    node = Jobs(places, RATES).node("n1", ahead_s)
    node.tick()
    places.clock.advance(2.7 - places.begin % 3)
    node.tick()
    return places, node


def test_a_slot_is_decided_before_it_comes_and_offered_when_it_has() -> None:
    places, node = decided()
    (run,) = places.database.runs
    assert places.queue.waiting == []
    pause_s = node.tick()
    assert pause_s == pytest.approx(0.3)
    places.clock.advance(0.29)
    node.tick()
    assert places.queue.waiting == []
    places.clock.advance(0.011)
    node.tick()
    assert places.queue.waiting == [run]


def test_none_is_decided_sooner_than_that() -> None:
    places, node = decided(ahead_s=0.2)
    assert places.database.runs == {}
    assert node.tick() == pytest.approx(0.1)


def test_no_clock_of_a_node_has_what_was_decided_offered_before_it_comes() -> None:
    """It waits as long as the store told that the slot was away, from when it was told."""
    places = Places(RATES)
    told = [0.25]
    node = CronNode(
        "n1",
        places.act,
        lambda: [Changed(RATES.name, RATES, places.begin)] if told else [],
        lambda: places.now_s() + told.pop() if told else places.now_s() + 0.25,
        places.clock,
        ahead_s=0.4,
    )
    node.tick()
    places.clock.advance(2.7 - places.begin % 3)
    node.tick()
    assert len(places.database.runs) == 1
    places.clock.advance(0.29)
    node.tick()
    assert places.queue.waiting == []
    places.clock.advance(0.011)
    node.tick()
    assert len(places.queue.waiting) == 1


def test_a_slot_that_another_is_at_is_not_looked_at_again_at_once() -> None:
    places = Places(RATES)
    asked: list[float] = []
    claim = places.store.claim

    def counting(step: ClaimSlots, now: float) -> SlotClaims:
        asked.append(now)
        return claim(step, now)

    places.answers(ClaimSlots, counting)
    slot = places.begin + 3 - places.begin % 3
    places.store.claim(ClaimSlots((SlotKey(RATES.name, 1, slot),), "dead", 5.0, 10.0), places.now_s())
    node = Jobs(places, RATES).node("n1", 0.5)
    pause_s = 0.0
    while places.now_s() < slot + 1:
        places.clock.advance(max(pause_s, 0.001))
        pause_s = node.tick()
    # Each half second, from half a second before it came.
    assert len(asked) <= 4


def test_who_stops_offers_what_it_decided_once_it_has_come() -> None:
    places, node = decided()
    assert node.finish() == pytest.approx(0.3)
    assert places.queue.waiting == []
    places.clock.advance(0.301)
    assert node.finish() == 0.0
    assert places.queue.waiting == list(places.database.runs)


def test_who_stops_while_nobody_takes_its_offers_leaves_them_to_others() -> None:
    places, node = decided()
    places.away.add(places.queue)
    places.clock.advance(0.301)
    assert (node.finish(), node.trouble) == (0.0, "it does not answer")
    assert node.finish() == 0.0


def test_what_a_node_decided_and_did_not_live_to_offer_is_offered_by_another() -> None:
    places, _ = decided()
    other = Jobs(places, RATES).node("n2", 0.4)
    turn(places, other, seconds=9)
    first = min(places.database.runs)
    assert first not in places.queue.waiting
    turn(places, other, seconds=5)
    assert first in places.queue.waiting


def test_what_a_node_left_is_offered_by_another_within_the_window_of_its_job() -> None:
    hasty = replace(RATES, policy=JobPolicy(catch_up_window_s=5))
    places = Places(hasty)
    node = Jobs(places, hasty).node("n1", 0.4)
    node.tick()
    places.clock.advance(2.7 - places.begin % 3)
    node.tick()
    (first,) = places.database.runs
    turn(places, Jobs(places, hasty).node("n2", 0.4), seconds=4.5)
    assert first in places.queue.waiting


def test_no_clock_of_the_database_has_what_was_decided_offered_before_it_comes() -> None:
    """By it, which may be ahead, nobody has begun it for long."""
    places, node = decided()
    ahead = places.now_s() + 60
    places.answers(ReadOpen, lambda step, now: (list(places.database.open.values()), ahead))
    node.sweep()
    assert places.queue.waiting == []
    # The node is gone that was to offer it.
    places.clock.advance(0.301)
    other = Jobs(places, RATES).node("n2", 0.4)
    other.tick()
    other.sweep()
    assert places.queue.waiting == list(places.database.runs)[:1]


def test_what_is_to_begin_later_than_its_slot_is_not_offered_with_it() -> None:
    late = replace(RATES, policy=JobPolicy(jitter_s=30))
    places = Places(late)
    node = Jobs(places, late).node("n1", 0.4)
    turn(places, node, seconds=3.5)
    (row,) = places.database.runs.values()
    assert row.not_before_s > row.slot
    assert places.queue.waiting == []
