"""What becomes of the slots that have come: pure, and the same however many are decided in one go."""

from __future__ import annotations

import pytest

from engine.cron.exclusions import compile_exclusions
from engine.cron.slots.job import CatchUp, CronJob, JobPolicy
from engine.cron.slots.planning import MOST_AT_ONCE, decide, due_after
from tests.engine.cron.slots.places import Seconds

#: 2026-09-21, 14:13:20 UTC.
BEGIN = 1_790_000_000


def run_after(job: CronJob, down_s: int) -> list[int]:
    """The slots that run, in seconds from the beginning, of a job whose nodes were down for so long."""
    cursor, runs = BEGIN, []
    while slots := due_after(job, cursor, BEGIN + down_s):
        runs += [each.slot - BEGIN for each in decide(job, slots, BEGIN + down_s) if not each.skipped]
        cursor = slots[-1]
    return runs


@pytest.mark.parametrize("down_s", [8, MOST_AT_ONCE - 1, MOST_AT_ONCE, MOST_AT_ONCE + 2, 4 * MOST_AT_ONCE + 1])
@pytest.mark.parametrize(
    ("catch_up", "missed"), [(CatchUp.NONE, 0), (CatchUp.LAST, 0), (CatchUp.ALL, 3)], ids=["none", "last", "all"]
)
def test_the_cap_counts_all_that_was_missed_and_not_each_batch(catch_up: CatchUp, missed: int, down_s: int) -> None:
    job = CronJob("close", 1, Seconds(), JobPolicy(grace_s=2, catch_up=catch_up, catch_up_most=3))
    # The newest that were missed, and those that are still in time.
    assert run_after(job, down_s) == list(range(down_s - 2 - missed, down_s + 1))


def test_more_than_one_batch_is_caught_up_with_where_the_cap_lets_it() -> None:
    policy = JobPolicy(grace_s=0, catch_up=CatchUp.ALL, catch_up_most=MOST_AT_ONCE + 100)
    job = CronJob("close", 1, Seconds(), policy)
    assert run_after(job, 2 * MOST_AT_ONCE) == list(range(MOST_AT_ONCE - 100, 2 * MOST_AT_ONCE + 1))


def test_the_last_alone_is_caught_up_with_where_nothing_is_in_time() -> None:
    job = CronJob("close", 1, Seconds(7), JobPolicy(grace_s=0, catch_up=CatchUp.LAST))
    down_s = 7 * MOST_AT_ONCE + 20
    slots = due_after(job, BEGIN, BEGIN + down_s)
    assert len(slots) == MOST_AT_ONCE
    assert [each.slot for each in decide(job, slots, BEGIN + down_s) if not each.skipped] == []
    assert len(run_after(job, down_s)) == 1


def test_why_a_missed_slot_does_not_run_is_true_also_where_one_behind_it_is_in_time() -> None:
    job = CronJob("close", 1, Seconds(), JobPolicy(grace_s=2, catch_up=CatchUp.LAST))
    missed = decide(job, due_after(job, BEGIN, BEGIN + 6), BEGIN + 6)[-4]
    assert missed.skipped == (
        "missed: nobody scheduled it for 3 s, and of all that has come since the job runs the last alone"
    )


def test_what_is_left_out_takes_nothing_of_the_cap() -> None:
    policy = JobPolicy(grace_s=0, catch_up=CatchUp.ALL, catch_up_most=3)
    # From twenty minutes after the beginning up to thirty: many batches behind the first.
    left_out = compile_exclusions("14:33..14:43")
    job = CronJob("close", 1, Seconds(), policy, exclusions=left_out)
    down_s = 1_700
    # 14:33:00 is 1,180 s after the beginning.
    assert run_after(job, down_s) == [1_177, 1_178, 1_179]


def test_by_how_much_a_run_begins_later_follows_from_job_and_slot_alone() -> None:
    waits = [CronJob(name, 1, Seconds(), JobPolicy(jitter_s=600)).wait_s(BEGIN) for name in ("close", "open")]
    # Of every process: no hash that each salts with its own.
    assert waits == [595, 226]
    policy = JobPolicy(jitter_s=600)
    spread = {CronJob("close", 1, Seconds(), policy).wait_s(BEGIN + second) for second in range(20_000)}
    assert spread == set(range(601))
