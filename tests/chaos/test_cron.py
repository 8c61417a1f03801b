"""Nodes and workers of the slot protocol as real processes, on a real store and a real database, of which parts die.

Every slot has one row that is over, and says why where nothing was done; what is done for a slot is done once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos.cron_cluster import Cluster
from tests.chaos.cron_jobs import follower, quick_jobs, slow_jobs
from tests.chaos.cron_process import LEASE_S
from tests.chaos.cron_tally import printed, tally
from tests.form import size

pytestmark = [pytest.mark.chaos, pytest.mark.sqlite]

NODES, WORKERS = 5, 3
#: Each has a slot every second; so many have work in it, and the others are paused. They take turns.
JOBS, ON_DUTY, SHIFT_S = size(2_000, short=60), size(60, short=20), 8.0
#: Whose work is longer than a lease.
SLOW_JOBS = 6
#: In which things go wrong, in seconds.
TROUBLED_S = size(280, short=40)


#: Where a node may die, and where a worker; each before and after.
WHEN = ("before", "after")
OF_NODES = ("ReadCursors", "ClaimSlots", "OpenRuns", "Offer", "ReadOpen", "LeasesHeld")
OF_WORKERS = ("ReadRun", "Acquire", "Begin", "Renew", "End", "Release")
#: In turn; behind them, where processes may have a network of their own, those of networks.
FAULTS: tuple[Callable[[Cluster], None], ...] = (
    Cluster.kill,
    Cluster.stop_beyond_the_lease,
    Cluster.two_at_once,
    Cluster.forget,
    Cluster.restart_store,
    Cluster.fail_over_to_an_empty_store,
    Cluster.lock_the_database,
    Cluster.kill,
)
OF_NETWORKS = (Cluster.partition, Cluster.partition_of_answers)


@pytest.fixture
def cluster(tmp_path: Path, prepared: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, prepared, seed=11)
    yield made
    made.end()


def test_every_slot_has_one_effective_run_or_one_row_with_a_reason(cluster: Cluster) -> None:
    """As many slots a second as the issue asks for are decided; with work in as many as workers of a small machine do.

    Two cores do some hundred runs a second beside the nodes that decide (SQLite has one writer, and a run is three
    transactions). So a shift of jobs has a run each second, and each slot of the others is a row that says "paused";
    a change of shift gives every job concerned a new version, in the midst of all else.
    """
    quick, always = list(quick_jobs(JOBS)), [follower(), *slow_jobs(SLOW_JOBS)]
    shifts = [
        # The first is followed by another job.
        {job.name for job in (quick[0], *quick[start : start + ON_DUTY], *always)}
        for start in range(0, JOBS, ON_DUTY)
    ]
    cluster.make_jobs([*quick, *always])
    cluster.put_on_duty(shifts[0])
    for number in range(NODES):
        cluster.start("node", number, (0.0, 90.0, -90.0, 0.0, 3.0)[number])
    for number in range(WORKERS):
        cluster.start("worker", number)
    cluster.until_started()
    faults = FAULTS if cluster.island is None else (*FAULTS, *OF_NETWORKS)
    end, number = time.monotonic() + TROUBLED_S, 0
    # Each in turn, and each once at least.
    with cluster.in_shifts(shifts, SHIFT_S):
        while time.monotonic() < end or number < len(faults):
            fault = faults[number % len(faults)]
            fault(cluster)
            cluster.told[fault.__name__] += 1
            number += 1
            time.sleep(cluster.rng.uniform(0.5, 2.0))
    last = int(time.time())
    cluster.until_decided(last)
    # One is enough for what is left: the workers need the processor.
    for number in range(1, NODES):
        cluster.stop(f"node{number}")
    cluster.until_over(last)
    found = list(tally(cluster, last))
    print(printed(cluster))
    assert found == []
    assert cluster.told["jobs"] == JOBS + SLOW_JOBS
    # Otherwise little was tried.
    assert cluster.told["slots done"] > cluster.told["slots on duty"] / 3
    assert cluster.told["jobs with an effect"] > 0.9 * JOBS


def test_who_is_cut_off_from_the_store_alone_writes_nothing_under_an_old_epoch(cluster: Cluster) -> None:
    if cluster.island is None:
        pytest.skip(cluster.no_island)
    cluster.make_jobs([*quick_jobs(1, period=10), *slow_jobs(SLOW_JOBS), follower()])
    cluster.start("node", 0)
    # Inside.
    cluster.start("worker", 2)
    cluster.until_started()
    begun = "SELECT id, epoch FROM jobs_jobrun WHERE state = 'running' AND owner LIKE 'worker2#%'"
    cluster.until(lambda: len(cluster.ask(begun)) > 0, "a run begins inside")
    cluster.start("worker", 0)
    with cluster.cut_off():
        cluster.until(lambda: cluster.ask("SELECT * FROM chaos_refused") != [], "who is cut off comes to write")
    last = int(time.time())
    cluster.until_over(last)
    found = list(tally(cluster, last))
    print(printed(cluster))
    assert found == []
    assert cluster.told["refused effects of who was cut off"] > 0
    # What it lost, another has done.
    lost = "SELECT r.state, r.owner FROM chaos_refused c JOIN jobs_jobrun r ON r.job = c.job AND r.slot = c.slot"
    assert all(state == "done" for state, _ in cluster.ask(f"{lost} WHERE r.slot <= ?", last))


@pytest.mark.long
def test_who_dies_before_or_after_any_step_leaves_nothing_undecided_and_nothing_done_twice(cluster: Cluster) -> None:
    cluster.make_jobs([*quick_jobs(4, attempts=3), follower()])
    cluster.start("node", 0)
    cluster.until_started()
    # A lease is renewed at half.
    long_work = {"WORK_S": str(LEASE_S)}
    cluster.doom("worker", *(f"{step}:{when}" for step in OF_WORKERS for when in WHEN), **long_work)
    cluster.stop("node0")
    cluster.doom("node", *(f"{step}:{when}" for step in OF_NODES for when in WHEN))
    for when in WHEN:
        # Something must have been lost, and nobody else must have seen it.
        cluster.doom("worker", "Begin:after")
        cluster.doom("node", f"GiveUp:{when}")
    cluster.start("node", 0)
    cluster.start("worker", 0)
    last = int(time.time())
    cluster.until_over(last)
    found = list(tally(cluster, last))
    print(printed(cluster))
    assert found == []
    assert cluster.told["slots done"] > cluster.told["slots"] / 3
