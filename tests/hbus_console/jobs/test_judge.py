"""The database judges as its model in the simulator does: histories are played on both, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from engine.cron.simulation.hosts import Ask, Cancel
from engine.cron.simulation.world import DATABASE, World, judged
from engine.cron.slots.job import AfterFailure, AfterLoss, JobPolicy, Overlap
from engine.cron.slots.planning import Decision
from engine.cron.slots.steps import (
    Begin,
    Beginning,
    CancelledRuns,
    Cursor,
    End,
    Ending,
    GiveUp,
    Opened,
    Opening,
    OpenRuns,
    ReadCursors,
    ReadOpen,
    ReadRun,
    RunRow,
    RunState,
    Step,
)
from hbus_console.jobs.columns import REASON_LIMIT
from hbus_console.jobs.judge import SlotJudge, database_time, row_of
from hbus_console.jobs.models import Job, JobAttempt, JobCursor, JobRun, TagLimit
from hbus_console.jobs.tags import keep_tags
from tests.form import size

pytestmark = pytest.mark.django_db

NOW_S = 1_790_000_000.25
POLICY = JobPolicy()


class OnBoth(World):
    """Each step that goes to the database is asked of both, and their answers must be the same."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.asked: Counter[str] = Counter()
        self._numbers: dict[int, int] = {}
        judge = SlotJudge(lambda: self.now)
        JobCursor.objects.bulk_create(
            JobCursor(job=it.job, version=it.version, at=it.at) for it in self.database.cursors.values()
        )
        for name, job in self.jobs.items():
            row = Job.objects.create(name=name, schedule="@never", tags=" ".join(job.policy.tags))
            keep_tags(row)
        TagLimit.objects.bulk_create(TagLimit(tag=tag, most_at_once=most) for tag, most in self.database.limits.items())
        real: dict[type[Step], Callable[[Any], Any]] = {
            ReadCursors: judge.read_cursors,
            OpenRuns: judge.open_runs,
            ReadRun: judge.read_run,
            Begin: judge.begin,
            End: judge.end,
            CancelledRuns: judge.cancelled,
            Cancel: lambda step: judge.request_cancel(step.run, step.why),
            ReadOpen: judge.read_open,
            GiveUp: judge.give_up,
            Ask: self._asked,
        }
        for kind, act in real.items():
            self.answers(kind, self._both(self._acts[kind][1], act))
        assert all(
            kind in real or place != DATABASE for kind, (place, _) in self._acts.items() if kind.__name__ != "Effect"
        )

    def _both(self, model: Callable[[Any, float], Any], real: Callable[[Any], Any]) -> Callable[[Any, float], Any]:
        def act(step: Any, now: float) -> Any:
            given = model(step, now)
            got = real(self._in_the_database(step))
            if isinstance(step, Ask):
                self._numbers[given.id] = got.id
            if isinstance(step, OpenRuns):
                self._numbers.update(zip((row.id for row in given.rows), (row.id for row in got.rows), strict=True))
            assert self._plain(got) == self._plain(self._translated(given)), step
            self.asked[f"{type(step).__name__} → {_said(given)}"] += 1
            return given

        return act

    def _asked(self, step: Ask) -> RunRow:
        """As the service that triggers makes it, by the history's clock."""
        at_us, key = round(self.now * 1_000_000), str(len(self.database.runs))
        place = {"job": step.job, "version": 1, "slot": int(self.now), "part": step.part}
        made = JobRun.objects.create(
            **place, kind=JobRun.Kind.MANUAL, key=key, state=RunState.CLAIMED, decided_us=at_us, changed_us=at_us
        )
        return row_of(made)

    def _in_the_database(self, step: Any) -> Any:
        if isinstance(step, GiveUp):
            return replace(step, seen=self._translated(step.seen))
        if isinstance(step, CancelledRuns):
            return replace(step, runs=self._translated_ids(step.runs))
        return (
            replace(step, run=self._in_database(step.run)) if isinstance(step, ReadRun | Begin | End | Cancel) else step
        )

    def _in_database(self, run: int) -> int:
        if run not in self._numbers:
            # One that was skipped, of which no answer told.
            row = self.database.runs[run]
            self._numbers[run] = JobRun.objects.get(
                job=row.job, slot=row.slot, part=row.part, kind=JobRun.Kind.SCHEDULE
            ).pk
        return self._numbers[run]

    def _translated_ids(self, runs: Iterable[int]) -> tuple[int, ...]:
        return tuple(self._numbers[run] for run in runs)

    def _translated(self, answer: Any) -> Any:
        match answer:
            case RunRow():
                return replace(answer, id=self._numbers[answer.id])
            case Opened():
                return replace(answer, rows=self._translated(answer.rows))
            case Ending():
                only_on = {self._numbers[run]: node for run, node in answer.only_on.items()}
                return replace(answer, next=self._translated_ids(answer.next), only_on=only_on)
            case set():
                return set(self._translated_ids(answer))
            case list() | tuple() if not isinstance(answer, Cursor):
                return type(answer)(self._translated(each) for each in answer)
        return answer

    def _plain(self, answer: Any) -> Any:
        """Times to the microsecond, lists in one order."""
        match answer:
            case RunRow():
                names = ("changed_s", "not_before_s", "made_s")
                return replace(answer, **{name: round(getattr(answer, name) * 1_000_000) for name in names})
            case Opened():
                return sorted(map(repr, answer.cursors)), self._plain(list(answer.rows))
            case list():
                return sorted((self._plain(each) for each in answer), key=repr)
            case tuple():
                return [self._plain(each) for each in answer]
        return answer


def _said(answer: Any) -> str:
    """Which of the answers that there are to its step."""
    match answer:
        case Opened():
            return str(bool(answer.cursors))
        case Ending():
            return f"{answer.state}, {len(answer.next)} next"
        case Beginning():
            return answer.value
    return str(bool(answer))


@pytest.mark.chaos
def test_the_database_answers_as_its_model() -> None:
    asked: Counter[str] = Counter()
    for seed in range(size(1_000, short=50)):
        for rows in (JobCursor, JobRun, Job, TagLimit):
            rows._default_manager.all().delete()
        world = OnBoth(seed)
        world.play()
        assert list(judged(world)) == []
        asked += world.asked
        told = world.database
        expected = Counter((row.state.value, told.reasons[row.id]) for row in told.runs.values())
        assert Counter(JobRun.objects.values_list("state", "reason")) == expected
    print("\n" + ", ".join(f"{count:,} {what}" for what, count in sorted(asked.items())))
    # Otherwise the refusals were not compared.
    answers = {
        *(f"{step.__name__} → {said}" for step in (Cancel, CancelledRuns, GiveUp, OpenRuns) for said in (True, False)),
        "Ask → True",
        *(f"Begin → {said}" for said in Beginning),
        *(f"End → {said}" for said in ("done, 0 next", "done, 1 next", "cancelled, 1 next")),
    }
    assert answers - asked.keys() == set()


def opening(job: str = "close", at: int = 0, slots: tuple[int, ...] = (10,), version: int = 1) -> Opening:
    return Opening(Cursor(job, version, at), tuple(Decision(slot) for slot in slots))


@pytest.fixture
def judge() -> SlotJudge:
    JobCursor.objects.create(job="close", version=1, at=0)
    JobCursor.objects.create(job="rates", version=1, at=0)
    return SlotJudge(lambda: NOW_S)


def test_of_many_openings_those_that_are_behind_are_left_out(judge: SlotJudge) -> None:
    assert [row.slot for row in judge.open_runs(OpenRuns((opening(slots=(10, 20)),), "n1")).rows] == [10, 20]
    both = judge.open_runs(OpenRuns((opening(slots=(30,)), opening("rates", slots=(5,)), opening("gone")), "n2"))
    assert [(row.job, row.slot) for row in both.rows] == [("rates", 5)]
    assert {(run.job, run.slot, run.node) for run in JobRun.objects.all()} == {
        ("close", 10, "n1"),
        ("close", 20, "n1"),
        ("rates", 5, "n2"),
    }
    assert judge.read_cursors(ReadCursors(("close", "gone"))) == [Cursor("close", 1, 20)]


def test_a_node_that_knows_another_version_opens_nothing(judge: SlotJudge) -> None:
    assert judge.open_runs(OpenRuns((opening(version=2),), "n1")) == Opened()
    assert not JobRun.objects.exists()


def test_a_cursor_that_was_put_back_passes_what_was_decided(judge: SlotJudge) -> None:
    judge.open_runs(OpenRuns((opening(slots=(10, 20)),), "n1"))
    JobCursor.objects.filter(job="close").update(at=0)
    again = judge.open_runs(OpenRuns((opening(slots=(10, 15, 20, 30)),), "n2"))
    assert [row.slot for row in again.rows] == [15, 30]
    assert judge.read_cursors(ReadCursors(("close",))) == [Cursor("close", 1, 30)]
    assert JobRun.objects.count() == 4


def test_a_run_tells_who_decided_it_and_who_has_it_and_when(judge: SlotJudge) -> None:
    (row,) = judge.open_runs(OpenRuns((opening(),), "n1")).rows
    assert judge.begin(Begin(row.id, 3, "w1#7", POLICY)) is Beginning.BEGUN
    assert judge.end(End(row.id, 3, RunState.FAILED, POLICY, "exit status 2")) == Ending(RunState.FAILED)
    run = JobRun.objects.get()
    assert (run.node, run.owner, run.epoch, run.state, run.reason) == ("n1", "w1#7", 3, "failed", "exit status 2")
    assert run.decided_us == run.begun_us == run.ended_us == run.changed_us == 1_790_000_000_250_000
    assert str(run.subject) == f"run:close/{row.id}"


def test_how_a_run_ended_is_said_by_who_has_it_and_stays_said(judge: SlotJudge) -> None:
    (row,) = judge.open_runs(OpenRuns((opening(),), "n1")).rows
    assert judge.end(End(row.id, 0, RunState.DONE, POLICY)) == Ending()
    assert judge.begin(Begin(row.id, 2, "w1", POLICY)) is Beginning.BEGUN
    assert [judge.end(End(row.id, epoch, RunState.DONE, POLICY)) for epoch in (1, 3)] == [Ending(), Ending()]
    # The first answer may have been lost.
    assert [judge.end(End(row.id, 2, RunState.DONE, POLICY)) for _ in range(2)] == [Ending(RunState.DONE)] * 2
    assert judge.end(End(row.id, 2, RunState.FAILED, POLICY)) == Ending()
    assert JobRun.objects.get().state == RunState.DONE


def test_a_run_is_begun_once_under_each_epoch(judge: SlotJudge) -> None:
    (row,) = judge.open_runs(OpenRuns((opening(),), "n1")).rows
    assert judge.begin(Begin(row.id, 2, "w1", POLICY)) is Beginning.BEGUN
    # Its lease ran out, and it is to be tried again: who still has the old lease does not begin it.
    JobRun.objects.filter(pk=row.id).update(state=RunState.CLAIMED, attempt=2)
    begun = [judge.begin(Begin(row.id, epoch, "w1", POLICY)) for epoch in (1, 2, 3)]
    assert begun == [Beginning.REFUSED, Beginning.REFUSED, Beginning.BEGUN]


def test_a_reason_that_is_too_long_is_cut_and_says_so(judge: SlotJudge) -> None:
    (row,) = judge.open_runs(OpenRuns((opening(),), "n1")).rows
    assert judge.begin(Begin(row.id, 1, "w1", POLICY)) is Beginning.BEGUN
    judge.end(End(row.id, 1, RunState.FAILED, POLICY, "x" * 10_000))
    reason = JobRun.objects.get().reason
    assert (len(reason), reason[-2:]) == (REASON_LIMIT, "x…")


def test_the_database_tells_its_own_time() -> None:
    before = database_time()
    assert 1_700_000_000 < before <= database_time()


@pytest.mark.sqlite
def test_what_is_open_is_found_without_looking_at_what_is_over() -> None:
    still_open = JobRun.objects.filter(ended_us=None).only("pk")
    running = JobRun.objects.filter(job="close", ended_us=None, state=RunState.RUNNING).only("pk")
    assert ["job_run_open" in query.order_by().explain() for query in (still_open, running)] == [True, True]


def test_a_free_manual_run_begins_beside_all_and_nobody_counts_it(judge: SlotJudge) -> None:
    free = JobPolicy(overlap=Overlap.SKIP, binds_manual=False)
    first, second = judge.open_runs(OpenRuns((opening(slots=(10, 20)),), "n1")).rows
    by_hand = JobRun.objects.create(
        job="close", version=1, slot=15, kind="manual", key="k", state="claimed", decided_us=1, changed_us=1
    )
    assert judge.begin(Begin(first.id, 1, "w1", free)) is Beginning.BEGUN
    assert judge.begin(Begin(by_hand.pk, 1, "w2", free)) is Beginning.BEGUN
    assert judge.end(End(first.id, 1, RunState.DONE, free)) == Ending(RunState.DONE)
    assert judge.begin(Begin(second.id, 1, "w1", free)) is Beginning.BEGUN
    bound = JobPolicy(overlap=Overlap.SKIP)
    (third,) = judge.open_runs(OpenRuns((opening(at=20, slots=(30,)),), "n1")).rows
    judge.end(End(second.id, 1, RunState.DONE, free))
    assert judge.begin(Begin(third.id, 1, "w1", bound)) is Beginning.REFUSED


def test_on_the_same_node_alone_runs_of_others_do_not_count(judge: SlotJudge) -> None:
    per_node = JobPolicy(overlap=Overlap.SKIP, per_node=True)
    rows = judge.open_runs(OpenRuns((opening(slots=(10, 20, 30, 40)),), "n1")).rows
    owners = ("n10:jobs:0:7#a", "n1:jobs:0:7#b", "n1:jobs:1:8#c", "n10:jobs:0:7#d")
    begun = [judge.begin(Begin(row.id, 1, owner, per_node)) for row, owner in zip(rows, owners, strict=True)]
    assert begun == [Beginning.BEGUN, Beginning.BEGUN, Beginning.REFUSED, Beginning.REFUSED]


def test_a_run_that_begins_later_than_its_slot_says_from_when(judge: SlotJudge) -> None:
    late = Opening(Cursor("close", 1, 0), (Decision(10, "", 7), Decision(20, "paused", 0)))
    (row,) = judge.open_runs(OpenRuns((late,), "n1")).rows
    assert row.not_before_s == 17.0
    assert dict(JobRun.objects.values_list("slot", "not_before_us")) == {10: 17_000_000, 20: 0}


def test_each_attempt_leaves_a_row_with_its_epoch_and_its_end(judge: SlotJudge) -> None:
    policy = JobPolicy(after_failure=AfterFailure.RETRY, attempts=3, backoff_s=0, after_loss=AfterLoss.RETRY)
    (row,) = judge.open_runs(OpenRuns((opening(),), "n1")).rows
    assert judge.begin(Begin(row.id, 1, "w1", policy)) is Beginning.BEGUN
    assert judge.begin(Begin(row.id, 1, "w2", policy)) is Beginning.REFUSED
    judge.end(End(row.id, 1, RunState.FAILED, policy, "exit status 2"))
    assert judge.begin(Begin(row.id, 2, "w2", policy)) is Beginning.BEGUN
    # The first, which is late, changes nothing.
    judge.end(End(row.id, 1, RunState.DONE, policy))
    (seen,) = judge.read_open(ReadOpen())[0]
    assert judge.give_up(GiveUp(seen, RunState.LOST, "its worker did not renew its lease", True))
    assert judge.begin(Begin(row.id, 3, "w3", policy)) is Beginning.BEGUN
    told = JobAttempt.objects.values_list("number", "epoch", "owner", "state", "reason", "ended_us")
    now_us = 1_790_000_000_250_000
    assert list(told) == [
        (1, 1, "w1", "failed", "exit status 2", now_us),
        (2, 2, "w2", "lost lease", "its worker did not renew its lease", now_us),
        (3, 3, "w3", "running", "", None),
    ]
