"""Whether a run begins beside others of its job, waits for them, stops them, or is skipped."""

from __future__ import annotations

import pytest

from engine.cron.slots.job import JobPolicy, Overlap
from engine.cron.slots.overlap import NEWER, RUNS, RUNS_AND_WAITS, OverlapVerdict, judged_overlap, not_begun
from engine.cron.slots.steps import Beginning, RunRow, RunState

BEGUN, WAITS, REFUSED = OverlapVerdict(Beginning.BEGUN), OverlapVerdict(Beginning.WAITS), Beginning.REFUSED


def row(
    number: int, state: RunState = RunState.CLAIMED, *, waits: bool = False, last_end: RunState | None = None
) -> RunRow:
    return RunRow(number, "close", number * 10, state, 0, 1, 0.0, waits, last_end=last_end)


def running(number: int) -> RunRow:
    return row(number, RunState.RUNNING)


@pytest.mark.parametrize("overlap", list(Overlap))
def test_beside_nobody_it_begins(overlap: Overlap) -> None:
    assert judged_overlap(row(2), [], JobPolicy(overlap=overlap)) == BEGUN
    # Who waits does not run.
    assert judged_overlap(row(2), [row(1, waits=True)], JobPolicy(overlap=overlap)) == BEGUN


def test_any_number_run_and_beyond_a_limit_any_number_waits() -> None:
    many = [running(number) for number in range(10)]
    assert judged_overlap(row(20), many, JobPolicy()) == BEGUN
    limited = JobPolicy(most_at_once=2)
    assert judged_overlap(row(3), [running(1)], limited) == BEGUN
    assert judged_overlap(row(4), [running(1), running(2), row(3, waits=True)], limited) == WAITS


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE, Overlap.CANCEL])
def test_the_others_let_one_run_whatever_the_limit_says(overlap: Overlap) -> None:
    assert judged_overlap(row(2), [running(1)], JobPolicy(overlap=overlap, most_at_once=5)).beginning != Beginning.BEGUN


def test_it_is_skipped_beside_another() -> None:
    assert judged_overlap(row(2), [running(1)], JobPolicy(overlap=Overlap.SKIP)) == OverlapVerdict(REFUSED, RUNS)


def test_one_waits_and_a_further_one_is_skipped() -> None:
    queue = JobPolicy(overlap=Overlap.QUEUE)
    assert judged_overlap(row(2), [running(1)], queue) == WAITS
    assert judged_overlap(row(3), [running(1), row(2, waits=True)], queue) == OverlapVerdict(REFUSED, RUNS_AND_WAITS)
    # It is offered once more before its turn has come.
    assert judged_overlap(row(2, waits=True), [running(1)], queue) == WAITS


def test_a_newer_one_has_those_that_run_stopped_and_takes_the_place_of_who_waits() -> None:
    cancel, waiting = JobPolicy(overlap=Overlap.CANCEL), row(2, waits=True)
    assert judged_overlap(row(2), [running(1)], cancel) == OverlapVerdict(Beginning.WAITS, "", (1,))
    assert judged_overlap(row(3), [running(1), waiting], cancel) == OverlapVerdict(
        Beginning.WAITS, "", (1,), (waiting,)
    )
    assert judged_overlap(row(2), [running(3)], cancel) == OverlapVerdict(REFUSED, NEWER)
    assert judged_overlap(row(2), [running(1), row(3, waits=True)], cancel) == OverlapVerdict(REFUSED, NEWER)


def test_what_began_once_has_not_been_skipped() -> None:
    assert not_begun(row(1), RunState.SKIPPED, RUNS) == (RunState.SKIPPED, RUNS)
    for ended in (RunState.LOST, RunState.FAILED):
        assert not_begun(row(1, last_end=ended), RunState.SKIPPED, RUNS) == (ended, f"not tried again: {RUNS}")
