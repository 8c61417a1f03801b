"""A node, tick by tick."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from engine.core.errors import Unavailable
from engine.cron.exclusions import compile_exclusions
from engine.cron.slots.job import CatchUp, CronJob, JobPolicy, Overlap
from engine.cron.slots.node import BUSY_S, CHANGES_S, LONGEST_S, MOST_JOBS, SHORTEST_S, SWEEP_S, Changed, CronNode
from engine.cron.slots.steps import Acquire, Offer, Opened, OpenRuns, RunState
from tests.engine.cron.slots.places import Places, Seconds

CLOSE = CronJob("close", 1, Seconds(), JobPolicy(grace_s=5, catch_up=CatchUp.ALL))
RATES = CronJob("rates", 1, Seconds(3))


class Broken:
    """Slots that nobody can tell."""

    def next_after(self, at: int) -> int | None:
        if at > 1_790_000_001:
            raise ArithmeticError("no such day")
        return at + 1


class Jobs:
    """What the nodes are told."""

    def __init__(self, places: Places, *jobs: CronJob) -> None:
        self._places = places
        self.next = [Changed(job.name, job, places.begin) for job in jobs]

    def node(self, name: str, ahead_s: float = 0.0) -> CronNode:
        told = list(self.next)

        def changes() -> list[Changed]:
            found = list(told)
            told.clear()
            return found

        self.tell = told.append
        places = self._places
        return CronNode(name, places.act, changes, places.store_time, places.clock, ahead_s=ahead_s)


def turn(places: Places, *nodes: CronNode, seconds: float, step: float = 0.25) -> None:
    for _ in range(round(seconds / step)):
        places.clock.advance(step)
        for node in nodes:
            node.tick()
            node.sweep()


def test_nodes_beside_each_other_open_each_slot_once() -> None:
    places = Places(CLOSE, RATES)
    nodes = [Jobs(places, CLOSE, RATES).node(name) for name in ("n1", "n2", "n3")]
    turn(places, *nodes, seconds=9.5)
    assert places.slots("close") == list(range(1, 10))
    assert places.slots("rates") == [second for second in range(1, 10) if (places.begin + second) % 3 == 0]
    assert sum(node.opened for node in nodes) == len(places.database.runs) == len(places.queue.waiting)


def test_a_node_that_dies_is_followed_by_the_others() -> None:
    places = Places(CLOSE)
    one, other = (Jobs(places, CLOSE).node(name) for name in ("n1", "n2"))
    turn(places, one, other, seconds=3)
    turn(places, other, seconds=9)
    assert places.slots("close") == list(range(1, 13))


@pytest.mark.parametrize("what", ["store", "database", "queue"])
def test_what_is_away_is_told_and_nothing_is_left_out(what: str) -> None:
    places = Places(CLOSE)
    node = Jobs(places, CLOSE).node("n1")
    turn(places, node, seconds=2)
    places.away.add(getattr(places, what))
    turn(places, node, seconds=3)
    assert node.trouble == "it does not answer"
    places.away.clear()
    # What was not offered is offered once more, ten seconds later.
    turn(places, node, seconds=20)
    assert node.trouble == ""
    assert places.slots("close") == list(range(1, 26))
    assert set(places.queue.waiting) == set(places.database.runs)


def test_one_job_that_cannot_be_decided_keeps_no_other_from_its_slots(caplog: pytest.LogCaptureFixture) -> None:
    broken = CronJob("broken", 1, Broken())
    places = Places(broken, CLOSE)
    jobs = Jobs(places, broken, CLOSE)
    node = jobs.node("n1")
    with caplog.at_level(logging.ERROR):
        turn(places, node, seconds=9)
    assert places.slots("close") == list(range(1, 10))
    assert node.failing == {"broken": "ArithmeticError: no such day"}
    # Not with every tick.
    assert len(caplog.records) == 1
    mended = replace(broken, version=2, slots=Seconds())
    places.database.cursors["broken"] = places.database.cursors["broken"]._replace(version=2)
    jobs.tell(Changed("broken", mended, places.begin + 9))
    turn(places, node, seconds=3)
    assert node.failing == {}
    assert 12 in places.slots("broken")


def test_one_job_whose_rows_are_refused_keeps_no_other_from_its_slots() -> None:
    """It fails when all of them are claimed already."""
    places = Places(CLOSE, RATES)
    jobs = Jobs(places, CLOSE, RATES)
    open_runs = places.database.open_runs

    def refusing(step: OpenRuns, now: float) -> Opened:
        if any(opening.cursor.job == RATES.name for opening in step.openings):
            raise ArithmeticError("no such row")
        return open_runs(step, now)

    places.answers(OpenRuns, refusing)
    node = jobs.node("n1")
    turn(places, node, seconds=9)
    assert places.slots(CLOSE.name) == list(range(1, 10))
    assert places.slots(RATES.name) == []
    assert node.failing == {RATES.name: "ArithmeticError: no such row"}


def test_a_mistake_that_none_of_them_makes_alone_is_told_although_an_older_one_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = CronJob("broken", 1, Broken())
    places = Places(broken, CLOSE, RATES)
    open_runs = places.database.open_runs

    def refusing(step: OpenRuns, now: float) -> Opened:
        if len(step.openings) > 1:
            raise ArithmeticError("no two at once")
        return open_runs(step, now)

    places.answers(OpenRuns, refusing)
    node = Jobs(places, broken, CLOSE, RATES).node("n1")
    turn(places, node, seconds=3)
    assert list(node.failing) == ["broken"]
    caplog.clear()
    turn(places, node, seconds=6)
    assert list(node.failing) == ["broken"]
    assert "each by itself could" in caplog.text
    assert "no two at once" in caplog.text
    assert places.slots("close") == list(range(1, 10))


def test_it_sleeps_until_the_next_slot_and_never_long() -> None:
    places = Places(CLOSE, RATES)
    assert Jobs(places).node("n1").tick() == LONGEST_S
    node = Jobs(places, CLOSE).node("n1")
    assert node.tick() == LONGEST_S
    places.clock.advance(0.9)
    assert node.tick() == pytest.approx(0.1)
    places.clock.advance(0.0999)
    assert node.tick() == SHORTEST_S


def test_it_does_not_sleep_while_more_is_due_than_it_decides_at_once() -> None:
    jobs = [CronJob(f"job{number}", 1, Seconds(100)) for number in range(MOST_JOBS + 1)]
    places = Places(*jobs)
    node = Jobs(places, *jobs).node("n1")
    node.tick()
    places.clock.advance(100)
    assert node.tick() == 0
    assert node.tick() > 0
    assert len(places.database.runs) == MOST_JOBS + 1


def test_jobs_come_change_and_go_while_it_runs() -> None:
    places = Places(CLOSE, RATES)
    jobs = Jobs(places, CLOSE)
    node = jobs.node("n1")
    turn(places, node, seconds=2)
    jobs.tell(Changed("rates", RATES, places.begin + 2))
    places.database.cursors["close"] = places.database.cursors["close"]._replace(version=2)
    jobs.tell(Changed("close", replace(CLOSE, version=2, held="paused: the ledger is closed"), places.begin + 2))
    turn(places, node, seconds=CHANGES_S + 4)
    later = [row for row in places.database.runs.values() if row.job == "close" and row.slot > places.begin + 2]
    assert {row.state for row in later} == {RunState.SKIPPED}
    assert set(places.database.reasons.values()) == {"", "paused: the ledger is closed"}
    del places.database.cursors["rates"]
    jobs.tell(Changed("close", None))
    had = len(places.database.runs)
    turn(places, node, seconds=5)
    assert len(places.database.runs) == had


def test_open_runs_of_a_job_that_is_gone_come_to_an_end() -> None:
    places = Places(CLOSE)
    (run,) = places.claimed()
    del places.database.cursors["close"]
    node = Jobs(places).node("n1")
    turn(places, node, seconds=20)
    assert places.queue.waiting
    turn(places, node, seconds=86_400, step=600)
    assert places.database.runs[run].state is RunState.ABANDONED


def test_what_waits_for_another_run_is_offered_once_that_has_ended_and_not_before() -> None:
    queued = replace(CLOSE, policy=JobPolicy(overlap=Overlap.QUEUE))
    places = Places(queued)
    first, second = places.claimed(("close", "close"))
    places.store.acquire(Acquire(first, "w1", 1_000.0, 0), places.now_s())
    database = places.database
    database.change(database.runs[first], places.now_s(), state=RunState.RUNNING, epoch=1)
    database.change(database.runs[second], places.now_s(), waits=True)
    node = Jobs(places, replace(queued, held="paused")).node("n1")
    turn(places, node, seconds=60)
    assert places.queue.waiting == []
    database.change(database.runs[first], places.now_s(), state=RunState.DONE)
    # Who ended it may not have come to offering.
    turn(places, node, seconds=15)
    assert places.queue.waiting == [second]


def test_of_those_that_wait_as_many_are_offered_as_may_run() -> None:
    limited = replace(CLOSE, policy=JobPolicy(most_at_once=2))
    places = Places(limited)
    runs = places.claimed(["close"] * 5)
    places.store.acquire(Acquire(runs[0], "w1", 1_000.0, 0), places.now_s())
    database = places.database
    database.change(database.runs[runs[0]], places.now_s(), state=RunState.RUNNING, epoch=1)
    for run in runs[1:]:
        database.change(database.runs[run], places.now_s(), waits=True)
    turn(places, Jobs(places, replace(limited, held="paused")).node("n1"), seconds=15)
    assert places.queue.waiting == [runs[1]]


def test_what_waits_for_a_run_whose_lease_is_lost_is_offered_when_that_is_given_up() -> None:
    queued = replace(CLOSE, policy=JobPolicy(overlap=Overlap.QUEUE, lease_s=5))
    places = Places(queued)
    first, second = places.claimed(("close", "close"))
    database = places.database
    database.change(database.runs[first], places.now_s(), state=RunState.RUNNING, epoch=1)
    database.change(database.runs[second], places.now_s(), waits=True)
    node = Jobs(places, replace(queued, held="paused")).node("n1")
    turn(places, node, seconds=5.75)
    assert database.runs[first].state is RunState.LOST
    assert places.queue.waiting == [second]


def test_who_has_waited_for_another_too_long_is_told_so() -> None:
    queued = replace(CLOSE, policy=JobPolicy(overlap=Overlap.QUEUE, catch_up_window_s=20))
    places = Places(queued)
    first, second = places.claimed(("close", "close"))
    places.store.acquire(Acquire(first, "w1", 1_000.0, 0), places.now_s())
    database = places.database
    database.change(database.runs[first], places.now_s(), state=RunState.RUNNING, epoch=1)
    database.change(database.runs[second], places.now_s(), waits=True)
    turn(places, Jobs(places, replace(queued, held="paused")).node("n1"), seconds=21)
    assert database.runs[first].state is RunState.RUNNING
    assert database.runs[second].state is RunState.ABANDONED
    assert database.reasons[second] == "it waited longer for another run of the job than 20 s"


def test_a_further_attempt_is_offered_when_its_time_has_come() -> None:
    places = Places(CLOSE)
    (run,) = places.claimed()
    node = Jobs(places).node("n1")
    node.tick()
    assert node.sweep() >= SWEEP_S
    # Longer than what nobody began is left alone.
    again = {"attempt": 2, "last_end": RunState.FAILED, "not_before_s": places.now_s() + 100_000.5}
    places.database.change(places.database.runs[run], places.now_s(), **again)
    assert node.sweep() >= SWEEP_S
    places.clock.advance(100_000)
    assert node.sweep() == pytest.approx(0.5)
    assert places.queue.waiting == []
    places.clock.advance(0.5)
    assert node.sweep() >= SWEEP_S
    assert places.queue.waiting == [run]
    # It is not offered with each look from then on.
    turn(places, node, seconds=9)
    assert places.queue.waiting == [run]


def test_what_begins_later_than_its_slot_is_offered_then_and_not_before() -> None:
    spread = replace(CLOSE, slots=Seconds(60), policy=JobPolicy(jitter_s=40))
    places = Places(spread)
    node = Jobs(places, spread).node("n1")
    turn(places, node, seconds=60 - places.begin % 60 + 0.25)
    (row,) = places.database.runs.values()
    wait_s = spread.wait_s(row.slot)
    assert 0 < wait_s <= 40
    assert row.not_before_s == row.slot + wait_s
    assert places.queue.waiting == []
    turn(places, node, seconds=row.not_before_s - places.now_s() - 0.25)
    assert places.queue.waiting == []
    turn(places, node, seconds=0.75)
    assert places.queue.waiting == [row.id]


def test_shares_of_the_delay_follow_from_job_and_slot_and_spread() -> None:
    spread = replace(CLOSE, policy=JobPolicy(jitter_s=9))
    shares = [spread.wait_s(slot) for slot in range(1_000)]
    assert set(shares) == set(range(10))
    assert shares == [spread.wait_s(slot) for slot in range(1_000)]
    assert shares != [replace(spread, name="rates").wait_s(slot) for slot in range(1_000)]


def test_slots_that_are_left_out_have_a_row_that_says_so_and_count_for_no_catching_up() -> None:
    places = Places(CLOSE)
    at = datetime.fromtimestamp(places.begin - places.begin % 60 + 60, UTC)
    line = f"{at:%H:%M}..{at + timedelta(minutes=1):%H:%M} the minute of the audit"
    quiet = replace(CLOSE, exclusions=compile_exclusions(line), policy=JobPolicy(grace_s=5, catch_up=CatchUp.LAST))
    first = int(at.timestamp()) - places.begin
    places.clock.advance(first + 50)
    Jobs(places, quiet).node("n1").tick()
    told = {row.slot - places.begin: places.database.reasons[row.id] for row in places.database.runs.values()}
    # The newest that was missed is the one before that minute.
    assert [slot for slot, why in told.items() if not why] == [first - 1]
    assert [slot for slot, why in told.items() if why == f"left out: {line}"] == list(range(first, first + 51))


@pytest.mark.parametrize(("off_ms", "said"), [(61_500, "62 s ahead of"), (-61_500, "62 s behind")])
def test_a_node_whose_clock_is_far_off_stops_and_says_so_until_it_is_set(off_ms: int, said: str) -> None:
    places = Places(CLOSE)
    jobs = Jobs(places, CLOSE)
    off = [off_ms]
    node = CronNode(
        "n1",
        places.act,
        lambda: list(jobs.next),
        lambda: places.now_s() - off[0] / 1000,
        places.clock,
        most_off_s=60,
    )
    turn(places, node, seconds=10)
    assert places.slots("close") == []
    assert node.trouble == (
        f"The clock of this node is {said} the store's, and with more than 60 s it decides no slot."
    )
    off[0] = 0
    places.clock.advance(1)
    node.tick()
    assert (node.trouble, bool(places.slots("close"))) == ("", True)


WEEK = JobPolicy(catch_up_window_s=7 * 86_400.0)


@pytest.mark.parametrize("hindered", ["not told yet", "database away", "wrong clock"])
def test_no_run_is_judged_before_its_job_is_known(hindered: str) -> None:
    job = CronJob("close", 1, Seconds(3_600), WEEK)
    places = Places(job)
    (run,) = places.claimed()
    ways = [hindered]

    def changes() -> list[Changed]:
        if ways == ["database away"]:
            raise Unavailable("it does not answer")
        return [Changed("close", job, places.begin)]

    def store_time() -> float:
        return places.now_s() - (600 if ways == ["wrong clock"] else 0)

    node = CronNode("n1", places.act, changes, store_time, places.clock, most_off_s=60)
    if hindered == "not told yet":
        node.sweep()
    for _ in range(48):
        places.clock.advance(3_600)
        if hindered != "not told yet":
            node.tick()
        node.sweep()
    assert places.database.runs[run].state is RunState.CLAIMED
    ways.clear()
    places.clock.advance(6 * 86_400)
    node.tick()
    node.sweep()
    assert places.database.runs[run].state is RunState.ABANDONED


def test_a_mistake_while_sweeping_is_told_and_the_next_look_is_whole(caplog: pytest.LogCaptureFixture) -> None:
    places = Places(CLOSE)
    (run,) = places.claimed()
    node = Jobs(places, CLOSE).node("n1")
    node.tick()
    mistakes = [ArithmeticError("out of mind")]

    def offered(step: Offer, now: float) -> None:
        if mistakes:
            raise mistakes.pop()
        places.queue.offer(step, now)

    places.answers(Offer, offered)
    places.clock.advance(30)
    assert node.sweep() == SWEEP_S
    assert node.sweep_trouble == "a mistake: ArithmeticError: out of mind"
    assert "could not be looked through" in caplog.text
    places.clock.advance(60)
    node.sweep()
    assert node.sweep_trouble == ""
    assert run in places.queue.waiting


@pytest.mark.parametrize(("ahead_s", "first", "last"), [(0.0, 0.6, 1.0), (0.5, 0.1, 0.5)], ids=["behind", "ahead"])
def test_the_open_runs_are_looked_through_when_no_slots_are_decided(ahead_s: float, first: float, last: float) -> None:
    places = Places(CLOSE)
    node = Jobs(places, CLOSE).node("n1", ahead_s)
    node.tick()
    for _ in range(10):
        pause_s = node.sweep()
        assert SWEEP_S <= pause_s <= SWEEP_S + BUSY_S
        # Thousands of slots may come with a whole second.
        assert first <= (places.now_s() + pause_s + 0.001) % 1 <= last + 0.002
        places.clock.advance(0.1)
