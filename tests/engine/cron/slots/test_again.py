"""A run whose work failed, or whose lease was lost, is tried again: when, and how often."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise

import pytest

from engine.cron.slots.job import AfterFailure, AfterLoss, JobPolicy
from engine.cron.slots.running import Held
from engine.cron.slots.steps import End, RunState
from engine.cron.slots.worker import Ended
from tests.engine.cron.slots.hall import Hall

POLICY = JobPolicy(lease_s=10, after_failure=AfterFailure.RETRY, attempts=3, backoff_s=4, backoff_most_s=6)


def fails(held: Held, stop: threading.Event) -> Ended:
    return Ended(RunState.FAILED, "exit status 2")


def test_a_pause_doubles_up_to_the_longest() -> None:
    policy = replace(POLICY, backoff_most_s=20)
    assert [policy.pause_s(attempt) for attempt in (1, 2, 3, 4, 100_000)] == [4, 8, 16, 20, 20]


@pytest.mark.parametrize(
    ("state", "changes", "attempt", "expected"),
    [
        (RunState.FAILED, {}, 1, 4.0),
        (RunState.FAILED, {}, 2, 6.0),
        (RunState.FAILED, {}, 3, None),
        (RunState.FAILED, {"after_failure": AfterFailure.END}, 1, None),
        (RunState.LOST, {}, 1, None),
        (RunState.LOST, {"after_loss": AfterLoss.RETRY}, 1, 0.0),
        (RunState.LOST, {"after_loss": AfterLoss.RETRY}, 3, None),
        (RunState.DONE, {"after_loss": AfterLoss.RETRY}, 1, None),
    ],
)
def test_which_ends_are_followed_by_another_attempt(
    state: RunState, changes: dict[str, object], attempt: int, expected: float | None
) -> None:
    policy = replace(POLICY, **changes)  # type: ignore[arg-type]
    assert End(1, 1, state, policy).again_s(attempt) == expected
    assert End(1, 1, state, policy, again=False).again_s(attempt) is None


def test_it_is_tried_as_often_as_the_job_says_each_time_after_its_pause() -> None:
    hall = Hall(POLICY)
    began: list[float] = []

    def work(held: Held, stop: threading.Event) -> Ended:
        began.append(hall.places.now_s())
        return fails(held, stop)

    told = []
    for _ in range(300):
        if (now := hall.worker.run(hall.run, work)) is not None:
            told.append(now)
            assert hall.row == (now, "exit status 2")
        hall.pass_time(0.1)
    assert told == [RunState.CLAIMED, RunState.CLAIMED, RunState.FAILED]
    assert [later - earlier for earlier, later in pairwise(began)] == pytest.approx([4, 6], abs=0.2)


def test_work_may_say_that_no_attempt_would_help() -> None:
    hall = Hall(POLICY)
    told = hall.worker.run(hall.run, lambda held, stop: Ended(RunState.FAILED, "no such hotel", again=False))
    assert (told, hall.row) == (RunState.FAILED, (RunState.FAILED, "no such hotel"))


def test_without_a_pause_it_is_offered_at_once() -> None:
    hall = Hall(replace(POLICY, backoff_s=0))
    assert hall.worker.run(hall.run, fails) is RunState.CLAIMED
    assert hall.places.queue.waiting == [hall.run]
    hall = Hall(POLICY)
    assert hall.worker.run(hall.run, fails) is RunState.CLAIMED
    assert hall.places.queue.waiting == []


def test_losses_count_like_failures() -> None:
    hall = Hall(replace(POLICY, after_loss=AfterLoss.RETRY, attempts=2))

    def work(held: Held, stop: threading.Event) -> Ended:
        hall.places.store.flush()
        hall.pass_time(6)
        return Ended(RunState.DONE)

    assert hall.worker.run(hall.run, work) is RunState.LOST
    assert hall.whole(hall.run).state is RunState.CLAIMED
    assert hall.places.queue.waiting == [hall.run]
    assert hall.worker.run(hall.run, fails) is RunState.FAILED


def test_what_was_to_stop_is_not_tried_again() -> None:
    hall = Hall(POLICY)

    def work(held: Held, stop: threading.Event) -> Ended:
        hall.places.database.request_cancel(held.row.id, "ana: not today", hall.places.now_s())
        # It failed before anybody told it.
        return fails(held, stop)

    assert hall.worker.run(hall.run, work) is RunState.CANCELLED
