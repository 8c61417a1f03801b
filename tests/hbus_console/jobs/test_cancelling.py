"""A run is cancelled by a person or by a newer one, and the database keeps who asked first, and why."""

from __future__ import annotations

import pytest

from engine.cron.slots.job import AfterFailure, AfterLoss, JobPolicy, Overlap
from engine.cron.slots.overlap import STOPPED
from engine.cron.slots.planning import Decision
from engine.cron.slots.steps import (
    Begin,
    Beginning,
    CancelledRuns,
    Cursor,
    End,
    Ending,
    GiveUp,
    Opening,
    OpenRuns,
    ReadRun,
    RunState,
)
from hbus_console.jobs.columns import REASON_LIMIT
from hbus_console.jobs.judge import SlotJudge
from hbus_console.jobs.models import JobCursor, JobRun

pytestmark = pytest.mark.django_db
NOW_S = 1_790_000_000.25
PLAIN, CANCEL = JobPolicy(), JobPolicy(overlap=Overlap.CANCEL)
AGAIN = JobPolicy(after_loss=AfterLoss.RETRY, after_failure=AfterFailure.RETRY, attempts=3, backoff_s=60)


@pytest.fixture
def judge() -> SlotJudge:
    JobCursor.objects.create(job="close", version=1, at=0)
    return SlotJudge(lambda: NOW_S)


@pytest.fixture
def runs(judge: SlotJudge) -> list[int]:
    opening = Opening(Cursor("close", 1, 0), (Decision(10), Decision(20)))
    return [row.id for row in judge.open_runs(OpenRuns((opening,), "n1")).rows]


def told(run: int) -> tuple[str, str]:
    row = JobRun.objects.get(pk=run)
    return row.state, row.reason


def test_what_is_only_claimed_is_cancelled_at_once(judge: SlotJudge, runs: list[int]) -> None:
    assert judge.request_cancel(runs[0], "ana: not today")
    assert told(runs[0]) == ("cancelled", "ana: not today")
    assert JobRun.objects.get(pk=runs[0]).ended_us == round(NOW_S * 1_000_000)
    assert judge.begin(Begin(runs[0], 1, "w1", PLAIN)) is Beginning.REFUSED


def test_what_runs_is_asked_to_stop_by_the_first_who_wants_it(judge: SlotJudge, runs: list[int]) -> None:
    judge.begin(Begin(runs[0], 1, "w1", PLAIN))
    assert judge.cancelled(CancelledRuns(tuple(runs))) == set()
    assert judge.request_cancel(runs[0], "ana: not today" + "!" * REASON_LIMIT)
    assert judge.request_cancel(runs[0], "ben: nor tomorrow")
    assert judge.cancelled(CancelledRuns(tuple(runs))) == {runs[0]}
    assert told(runs[0]) == ("running", "")
    for _ in range(2):
        end = End(runs[0], 1, RunState.FAILED, AGAIN, "exit status -15")
        assert judge.end(end) == Ending(RunState.CANCELLED)
    assert told(runs[0])[1].startswith("ana: not today!")


def test_what_is_over_or_never_was_is_not_cancelled(judge: SlotJudge, runs: list[int]) -> None:
    judge.begin(Begin(runs[0], 1, "w1", PLAIN))
    judge.end(End(runs[0], 1, RunState.DONE, PLAIN))
    assert not judge.request_cancel(runs[0], "too late")
    assert not judge.request_cancel(0, "nobody")
    assert told(runs[0]) == ("done", "")


def test_what_is_done_in_spite_of_it_is_done(judge: SlotJudge, runs: list[int]) -> None:
    judge.begin(Begin(runs[0], 1, "w1", PLAIN))
    judge.request_cancel(runs[0], "ana: not today")
    assert judge.end(End(runs[0], 1, RunState.DONE, PLAIN)) == Ending(RunState.DONE)


def test_what_was_to_stop_and_was_lost_is_not_tried_again(judge: SlotJudge, runs: list[int]) -> None:
    judge.begin(Begin(runs[0], 1, "w1", PLAIN))
    judge.begin(Begin(runs[1], 1, "w1", PLAIN))
    for run in runs:
        judge.request_cancel(run, "ana: not today")
    assert judge.end(End(runs[0], 1, RunState.LOST, AGAIN, "its lease was lost")) == Ending(RunState.LOST)
    seen = judge.read_run(ReadRun(runs[1]))
    assert seen is not None
    assert judge.give_up(GiveUp(seen, RunState.LOST, "its worker is gone", True))
    assert told(runs[1])[0] == "lost lease"


def test_a_newer_run_has_the_other_stopped_and_is_offered_at_its_end(judge: SlotJudge, runs: list[int]) -> None:
    old, new = runs
    assert judge.begin(Begin(old, 1, "w1", CANCEL)) is Beginning.BEGUN
    assert judge.begin(Begin(new, 1, "w2", CANCEL)) is Beginning.WAITS
    assert judge.cancelled(CancelledRuns((old, new))) == {old}
    # The first answer may have been lost, and with it the offer.
    for _ in range(2):
        assert judge.end(End(old, 1, RunState.FAILED, CANCEL)) == Ending(RunState.CANCELLED, (new,))
    assert told(old) == ("cancelled", STOPPED)
    assert judge.begin(Begin(new, 2, "w2", CANCEL)) is Beginning.BEGUN
    assert judge.end(End(new, 2, RunState.DONE, CANCEL)) == Ending(RunState.DONE)


def test_a_further_attempt_keeps_its_reason_and_waits_for_its_time(judge: SlotJudge, runs: list[int]) -> None:
    judge.begin(Begin(runs[0], 1, "w1", AGAIN))
    for _ in range(2):
        end = End(runs[0], 1, RunState.FAILED, AGAIN, "exit status 2")
        assert judge.end(end) == Ending(RunState.CLAIMED)
    assert told(runs[0]) == ("claimed", "exit status 2")
    seen = judge.read_run(ReadRun(runs[0]))
    assert seen is not None
    assert (seen.attempt, seen.last_end, seen.not_before_s) == (2, RunState.FAILED, NOW_S + 60)
    assert judge.begin(Begin(runs[0], 2, "w1", AGAIN)) is Beginning.WAITS
    later = SlotJudge(lambda: NOW_S + 60)
    assert later.begin(Begin(runs[0], 2, "w1", AGAIN)) is Beginning.BEGUN
    assert JobRun.objects.get(pk=runs[0]).ended_us is None
