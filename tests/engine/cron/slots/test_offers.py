"""What waits is offered again, whoever lost it, and no queue grows much longer than what waits."""

from __future__ import annotations

from typing import Any

import pytest

from engine.core.errors import Unavailable
from engine.cron.slots.driving import perform
from engine.cron.slots.job import CronJob, JobPolicy
from engine.cron.slots.planning import Decision
from engine.cron.slots.scheduling import AT_MOST, OFFER_AGAIN_S, RunSweeper
from engine.cron.slots.steps import Offer, RunState, Step
from tests.engine.cron.slots.places import Places, Seconds

RUNS, NODES, HOUR_S = 60, 3, 3600
JOB = CronJob("close", 1, Seconds(), JobPolicy(catch_up_window_s=2 * HOUR_S))


class Backlog:
    """Runs that were offered once, and nodes that look at them; there are no workers unless the test is one."""

    def __init__(self, runs: int = RUNS, part: str = "") -> None:
        self.places = Places(JOB)
        database, queue = self.places.database, self.places.queue
        decided = (Decision(self.places.begin - each, part=part) for each in range(runs))
        made = [database.insert("close", each, self.places.now_s()) for each in decided]
        self.runs = [row.id for row in made if row is not None]
        self.queue = queue.waiting
        self.queue += self.runs
        self.restart()

    def restart(self) -> None:
        self.sweepers = [RunSweeper() for _ in range(NODES)]

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / 2)):
            self.places.clock.advance(2)
            for sweeper in self.sweepers:
                perform(sweeper.sweep({"close": JOB}, self.places.now_s()), self.places.act, self.places.clock)
            assert len(self.queue) <= AT_MOST * len(self.runs)

    def begin_one(self) -> int:
        """As the only worker would, with the first that waits in the queue, if it is not begun yet."""
        run = self.queue.pop(0)
        self.places.database.change(self.places.database.runs[run], self.places.now_s(), state=RunState.DONE)
        return run


def test_no_number_of_nodes_and_of_their_restarts_makes_the_queue_longer_than_what_waits() -> None:
    backlog = Backlog()
    for _ in range(6):
        backlog.pass_time(HOUR_S / 6)
        backlog.restart()
    assert set(backlog.queue) == set(backlog.runs)


def test_a_queue_that_was_lost_is_there_again() -> None:
    backlog = Backlog()
    backlog.pass_time(6)
    backlog.queue.clear()
    backlog.pass_time(6)
    assert set(backlog.queue) == set(backlog.runs)


def test_one_that_was_lost_among_many_begins_with_those_that_were_not() -> None:
    backlog = Backlog()
    lost = backlog.queue.pop(RUNS // 2)
    begun = set()
    while backlog.queue:
        begun.add(backlog.begin_one())
        backlog.pass_time(4)
    assert lost in begun
    assert begun == set(backlog.runs)


def test_what_is_for_a_node_has_room_in_the_queue_of_that_node_alone() -> None:
    backlog = Backlog(part="@web-1")
    backlog.places.queue.only_on.update(dict.fromkeys(backlog.runs, "web-1"))
    elsewhere = [1_000 + each for each in range(2 * RUNS)]
    backlog.queue[:] = elsewhere
    for _ in range(10):
        backlog.places.clock.advance(2)
        for sweeper in backlog.sweepers:
            perform(sweeper.sweep({"close": JOB}, backlog.places.now_s()), backlog.places.act, backlog.places.clock)
    assert set(backlog.queue[len(elsewhere) :]) == set(backlog.runs)


def test_a_queue_that_does_not_answer_is_asked_again_at_the_next_look() -> None:
    backlog = Backlog()
    backlog.queue.clear()
    places = backlog.places
    sweeper = RunSweeper()
    act, offers = places.act, []

    def away(step: Step) -> Any:
        if isinstance(step, Offer):
            offers.append(step)
            if len(offers) == 1:
                raise Unavailable("it does not answer")
        return act(step)

    places.clock.advance(OFFER_AGAIN_S + 1)
    with pytest.raises(Unavailable):
        perform(sweeper.sweep({"close": JOB}, places.now_s()), away, places.clock)
    places.clock.advance(2)
    perform(sweeper.sweep({"close": JOB}, places.now_s()), away, places.clock)
    assert sorted(backlog.queue) == sorted(backlog.runs)
