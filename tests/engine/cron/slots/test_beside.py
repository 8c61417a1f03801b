"""What a worker does with a run beside others of its job: it waits, has them stopped, and follows them at once."""

from __future__ import annotations

import threading

import pytest

from engine.cron.slots.job import JobPolicy, Overlap
from engine.cron.slots.keeping import ASK_S, LeaseKeeper
from engine.cron.slots.overlap import REPLACED, RUNS_AND_WAITS, STOPPED
from engine.cron.slots.running import Held
from engine.cron.slots.steps import CancelledRuns, Renew, RunState
from engine.cron.slots.worker import Ended, RunWorker
from tests.engine.cron.slots.hall import POLICY, Hall

DONE = Ended(RunState.DONE)


def done(held: Held, stop: threading.Event) -> Ended:
    return DONE


def not_now(held: Held, stop: threading.Event) -> Ended:
    pytest.fail("another was running")


@pytest.mark.parametrize("policy", [JobPolicy(overlap=Overlap.QUEUE), JobPolicy(most_at_once=1)])
def test_one_waits_and_is_offered_when_the_other_has_ended(policy: JobPolicy) -> None:
    hall = Hall(policy)
    second = hall.claim()

    def work(held: Held, stop: threading.Event) -> Ended:
        assert hall.worker.run(second, not_now) is None
        assert (hall.whole(second).state, hall.whole(second).waits) == (RunState.CLAIMED, True)
        assert hall.places.queue.waiting == []
        return DONE

    assert hall.worker.run(hall.run, work) is RunState.DONE
    assert hall.places.queue.waiting == [second]
    # It did not keep the lease that it took to be told so.
    assert hall.worker.run(second, done) is RunState.DONE


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (JobPolicy(overlap=Overlap.QUEUE), (RunState.SKIPPED, RUNS_AND_WAITS)),
        (JobPolicy(most_at_once=1), (RunState.CLAIMED, "")),
    ],
)
def test_a_further_one_is_skipped_under_queue_and_waits_under_a_limit(
    policy: JobPolicy, expected: tuple[RunState, str]
) -> None:
    hall = Hall(policy)
    second, third = hall.claim(), hall.claim()

    def work(held: Held, stop: threading.Event) -> Ended:
        for run in (second, third):
            assert hall.worker.run(run, not_now) is None
        return DONE

    hall.worker.run(hall.run, work)
    assert hall.told(third) == expected
    assert hall.places.queue.waiting == [second]


def test_what_cannot_be_offered_does_not_keep_the_other_from_its_end() -> None:
    hall = Hall(JobPolicy(overlap=Overlap.QUEUE))
    second = hall.claim()

    def work(held: Held, stop: threading.Event) -> Ended:
        hall.worker.run(second, not_now)
        hall.places.away.add(hall.places.queue)
        return DONE

    assert hall.worker.run(hall.run, work) is RunState.DONE
    assert not hall.is_held()


def test_a_newer_run_has_the_other_stopped_and_follows_it() -> None:
    hall = Hall(JobPolicy(overlap=Overlap.CANCEL))
    second, third = hall.claim(), hall.claim()

    def work(held: Held, stop: threading.Event) -> Ended:
        assert not stop.is_set()
        assert hall.worker.run(second, not_now) is None
        assert hall.worker.run(third, not_now) is None
        hall.pass_time(1)
        assert stop.is_set()
        return Ended(RunState.FAILED, "exit status -15")

    assert hall.worker.run(hall.run, work) is RunState.CANCELLED
    assert hall.row == (RunState.CANCELLED, STOPPED)
    assert hall.told(second) == (RunState.SKIPPED, REPLACED)
    assert hall.places.queue.waiting == [third]
    assert hall.worker.run(third, done) is RunState.DONE


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (Ended(RunState.FAILED, "exit status -15"), (RunState.CANCELLED, "ana: not today")),
        (DONE, (RunState.DONE, "")),
    ],
)
def test_a_person_has_a_run_stopped_and_what_is_done_before_is_done(
    ended: Ended, expected: tuple[RunState, str]
) -> None:
    hall = Hall()

    def work(held: Held, stop: threading.Event) -> Ended:
        assert hall.places.database.request_cancel(held.row.id, "ana: not today", hall.places.now_s())
        hall.pass_time(30)
        assert stop.is_set()
        assert hall.is_held()
        return ended

    assert hall.worker.run(hall.run, work) is expected[0]
    assert hall.row == expected


def test_a_database_that_is_away_is_asked_again_and_costs_no_lease() -> None:
    hall = Hall()

    def work(held: Held, stop: threading.Event) -> Ended:
        hall.places.database.request_cancel(held.row.id, "not today", hall.places.now_s())
        hall.places.away.add(hall.places.database)
        hall.pass_time(30)
        assert not stop.is_set()
        hall.places.away.clear()
        hall.pass_time(1)
        assert stop.is_set()
        return Ended(RunState.FAILED)

    assert hall.worker.run(hall.run, work) is RunState.CANCELLED


def test_threads_keep_leases_and_learn_what_is_to_stop() -> None:
    hall = Hall()
    keeper = LeaseKeeper(hall.places.act)
    worker = RunWorker("w1", hall.places.act, keeper, lambda job: POLICY)
    keeper.start()

    def work(held: Held, stop: threading.Event) -> Ended:
        hall.places.database.request_cancel(held.row.id, "not today", hall.places.now_s())
        assert stop.wait(60)
        return Ended(RunState.FAILED)

    assert worker.run(hall.run, work) is RunState.CANCELLED
    keeper.stop()


def test_a_mistake_of_the_question_ends_no_asking(caplog: pytest.LogCaptureFixture) -> None:
    hall = Hall()
    told: list[int] = []
    held = hall.held()
    hall.keeper.keep(held, lambda: None, lambda: told.append(held.row.id))
    mistakes = [ArithmeticError("out of mind")]

    def asked(step: CancelledRuns, now: float) -> set[int]:
        if mistakes:
            raise mistakes.pop()
        return set(step.runs)

    hall.places.answers(CancelledRuns, asked)
    assert hall.keeper.ask() == ASK_S
    assert "could not be asked" in caplog.text
    hall.keeper.ask()
    assert told == [hall.run]


def test_a_lease_that_cannot_be_kept_for_a_mistake_is_lost_and_the_others_are_kept() -> None:
    hall = Hall()
    other = hall.claim()
    lost: list[int] = []
    for run in (hall.run, other):
        held = hall.held(run)
        hall.keeper.keep(held, lambda run=run: lost.append(run), lambda: None)  # type: ignore[misc]
    renewed: list[int] = []

    def renew(step: Renew, now: float) -> bool:
        if step.run == hall.run:
            raise ArithmeticError("out of mind")
        renewed.append(step.run)
        return hall.places.store.renew(step, now)

    hall.places.answers(Renew, renew)
    hall.pass_time(30)
    assert lost == [hall.run]
    assert len(renewed) > 3
