"""Nodes and workers of the slot protocol as real processes, on a real store and a real database, of which parts die.

Every slot has one row that is over, and says why where nothing was done; what is done for a slot is done once.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from hbus_console.state import ROOT
from hbus_console.supervisor.standalone import StandaloneStore
from tests.chaos.cron_process import LEASE_S
from tests.chaos.form import size

pytestmark = [pytest.mark.chaos, pytest.mark.sqlite]

NODES, WORKERS = 5, 3
#: Each has a slot every second.
JOBS = size(200, short=20)
#: In which things go wrong, in seconds.
TROUBLED_S = size(180, short=30)
#: Real seconds after which what is not over has failed.
PATIENCE_S = 900.0
OPEN = "SELECT COUNT(*) FROM jobs_jobrun WHERE ended_us IS NULL"


#: A job that runs after any end of job0, how, and the keys of the runs that follow those ends.
BEHIND = "behind"
ENDS = {"after": "job0 any", "after_loss": "end", "after_failure": "end"}
ENDED = """
    SELECT 'run-' || id FROM jobs_jobrun
    WHERE job = 'job0' AND ended_us IS NOT NULL AND state <> 'skipped' AND slot <= ?
"""


class Cluster:
    """Use :meth:`end` whatever happens."""

    def __init__(self, folder: Path, prepared: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.state = folder / "state"
        self.state.mkdir()
        self.database = self.state / "hbus.sqlite3"
        for name in ("hbus.sqlite3", "ledger.sqlite3"):
            with (
                closing(sqlite3.connect(prepared / name)) as source,
                closing(sqlite3.connect(self.state / name)) as made,
            ):
                source.backup(made)
        self.store = StandaloneStore(folder / "store", fsync="always").start()
        self._environment = {
            **os.environ,
            "STATE": str(self.state),
            "REDIS_URL": self.store.url,
            "HBUS_PREFIX": f"cron{secrets.token_hex(4)}",
            "DJANGO_SETTINGS_MODULE": "hbus_console.settings",
        }
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self.told: Counter[str] = Counter()

    def ask(self, query: str, *arguments: object) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.database, timeout=30)) as connection, connection:
            return connection.execute(query, arguments).fetchall()

    def make_jobs(self, number: int, *, attempts: int = 1) -> None:
        self.ask("CREATE TABLE chaos_effect (job TEXT, slot INTEGER, epoch INTEGER, owner TEXT)")
        self.ask("INSERT OR IGNORE INTO topics_team (id, name, contact, created_at) VALUES (1, 'ops', 'ops', '2026')")
        at = int(time.time())
        for each in range(number):
            # Every other one would rather skip a slot, wait, or stop the run before than run two at once.
            overlap = ("run", "skip", "run", "queue", "run", "cancel")[each % 6]
            policy = {"overlap": overlap, "catch_up": ("all", "last")[each // 2 % 2], "attempts": attempts}
            tried = "retry" if attempts > 1 else "end"
            self._make_job(f"job{each}", at, {**policy, "after_loss": tried, "after_failure": tried})
        # One that runs after any end of the first.
        self._make_job(BEHIND, at, {"overlap": "run", "catch_up": "last", "attempts": 1, "schedule": "@never", **ENDS})
        self.ask(
            "INSERT INTO jobs_jobafter (job_id, upstream, ended) SELECT id, 'job0', 'any' FROM jobs_job WHERE name = ?",
            BEHIND,
        )

    def _make_job(self, name: str, at: int, policy: dict[str, object]) -> None:
        columns = {
            "name": name,
            "description": "",
            "kind": "http",
            "target": "https://1.1.1.1/",
            "options": "{}",
            "parameters": "{}",
            "acts_as": "system",
            "secret": "x",
            "timeout_s": 0,
            "schedule": "* * * * * *",
            "zone": "UTC",
            "gap": "end",
            "fold": "first",
            "grace_s": 5,
            "catch_up_window_s": 3_600,
            "catch_up_most": 10_000,
            "most_at_once": 0,
            "backoff_s": 1,
            "backoff_most_s": 5,
            "lease_s": LEASE_S,
            "jitter_s": 0,
            "overlap_on": "cluster",
            "manual_runs": "bound",
            "division": "whole",
            "shards": 1,
            "tags": "",
            "excluded": "",
            "after": "",
            "paused": False,
            "pause_reason": "",
            "version": 1,
            "created_at": "2026-11-23",
            "updated_at": "2026-11-23",
            "team_id": 1,
            **policy,
        }
        self.ask(
            "INSERT OR IGNORE INTO topics_team (id, name, contact, created_at) VALUES (1, 'ops', 'ops', '2026-11-23')"
        )
        marks = ", ".join("?" * len(columns))
        self.ask(f"INSERT INTO jobs_job ({', '.join(columns)}) VALUES ({marks})", *columns.values())
        self.ask("INSERT INTO jobs_jobcursor (job, version, at) VALUES (?, 1, ?)", name, at)

    def start(self, kind: str, number: int, skew_s: float = 0.0, **environment: str) -> None:
        name = f"{kind}{number}"
        command = [sys.executable, "-m", "tests.chaos.cron_process", kind, name, str(skew_s)]
        self._processes[name] = subprocess.Popen(
            command, cwd=ROOT, env={**self._environment, **environment}, stdout=subprocess.PIPE, text=True
        )

    def stop(self, name: str) -> None:
        process = self._processes.pop(name)
        process.terminate()
        process.communicate(timeout=PATIENCE_S)

    def doom(self, kind: str, *places: str, **environment: str) -> None:
        """Processes that kill themselves, each at its place; return once all have come to it."""
        numbers = range(100, 100 + len(places))
        for number, place in zip(numbers, places, strict=True):
            self.start(kind, number, DIE_AT=place, **environment)
        for number in numbers:
            process = self._processes.pop(f"{kind}{number}")
            assert process.wait(timeout=PATIENCE_S) == -signal.SIGKILL
            process.communicate()

    def until_started(self) -> None:
        for process in self._processes.values():
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"

    def end(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.communicate()
        self.store.kill()

    # Faults -----------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        name = self.rng.choice(sorted(self._processes))
        process = self._processes[name]
        process.kill()
        process.communicate()
        kind, number = name[:-1], int(name[-1])
        self.start(kind, number, self.rng.choice((0.0, 0.0, -90.0, 90.0)) if kind == "node" else 0.0)

    def stop_beyond_the_lease(self) -> None:
        name = self.rng.choice(sorted(self._processes))
        self._processes[name].send_signal(signal.SIGSTOP)
        time.sleep(LEASE_S + 2)
        self._processes[name].send_signal(signal.SIGCONT)

    def two_at_once(self) -> None:
        one, other = self.rng.sample(sorted(self._processes), 2)
        self._processes[one].send_signal(signal.SIGSTOP)
        self._processes[other].kill()
        self._processes[other].communicate()
        self.forget()
        time.sleep(LEASE_S + 1)
        self.start(other[:-1], int(other[-1]))
        self._processes[one].send_signal(signal.SIGCONT)

    def forget(self) -> None:
        client = redis.Redis.from_url(self.store.url)
        client.flushall()
        client.close()

    def restart_store(self) -> None:
        self.store.kill()
        time.sleep(self.rng.choice((0.2, 3.0)))
        self.store.start()

    def fail_over_to_an_empty_store(self) -> None:
        self.store.kill()
        for path in self.store.folder.rglob("*aof*"):
            if path.is_file():
                path.unlink()
        time.sleep(1)
        self.store.start()

    def lock_the_database(self) -> None:
        with closing(sqlite3.connect(self.database, timeout=30, isolation_level=None)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            time.sleep(LEASE_S)
            connection.execute("ROLLBACK")

    # The judge --------------------------------------------------------------------------------------------------------

    def until_over(self, last: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            ((behind,),) = self.ask("SELECT COUNT(*) FROM jobs_jobcursor WHERE at < ? AND job <> ?", last, BEHIND)
            ((still,),) = self.ask(f"{OPEN} AND slot <= ?", last)
            ((follows,),) = self.ask(f"{OPEN} AND kind = 'after' AND key IN ({ENDED})", last)
            if behind == still == follows == 0:
                return
            time.sleep(0.5)
        raise AssertionError(f"behind: {behind}, open: {self.ask('SELECT * FROM jobs_jobrun WHERE ended_us IS NULL')}")

    def tally(self, last: int) -> Iterator[str]:
        """What must never be, and is: each as a sentence."""
        yield from self._unfollowed(last)
        yield from self._wrong_attempts(last)
        found = "SELECT job, slot, state, reason, attempt FROM jobs_jobrun WHERE kind = 'schedule' AND slot <= ?"
        rows = self.ask(found, last)
        effects = Counter((job, slot) for job, slot in self.ask("SELECT job, slot FROM chaos_effect"))
        by_slot = Counter((job, slot) for job, slot, *_ in rows)
        first = {job: min(slot for its, slot in by_slot if its == job) for job, _ in by_slot}
        for job, begin in first.items():
            for slot in range(int(str(begin)), last + 1):
                if by_slot[job, slot] != 1:
                    yield f"{job} at {slot} has {by_slot[job, slot]} rows"
        for job, slot, state, reason, attempt in rows:
            done = effects[job, slot]
            # A job that is tried again after a loss says that its work may be done twice.
            if done > int(str(attempt)):
                yield f"the effect of {job} at {slot} was done {done} times in {attempt} attempts"
            if (state == "done") != (done > 0) and state not in ("lost lease", "failed"):
                yield f"{job} at {slot} is {state}, and its effect was done {done} times"
            if state != "done" and not reason:
                yield f"{job} at {slot} is {state}, and nobody says why"
        self.told.update(f"slots {state}" for _, _, state, *_ in rows)
        self.told["slots"] = len(rows)
        self.told["jobs"] = len(first)

    def _unfollowed(self, last: int) -> Iterator[str]:
        ended = {str(key) for (key,) in self.ask(ENDED, last)}
        followed = Counter(str(key) for (key,) in self.ask("SELECT key FROM jobs_jobrun WHERE kind = 'after'"))
        self.told["ends followed"] = len(ended)
        for key in ended:
            if followed[key] != 1:
                yield f"the end of {key} was followed {followed[key]} times"
        skipped = "SELECT 'run-' || id FROM jobs_jobrun WHERE job = 'job0' AND state = 'skipped'"
        yield from (f"{key} was skipped and followed" for (key,) in self.ask(skipped) if followed[str(key)])

    def _wrong_attempts(self, last: int) -> Iterator[str]:
        """Each run that a worker began has as many attempts as it counts, and the last one ended as it did."""
        attempts = """
            SELECT r.id, r.attempt, r.state, COUNT(a.id), SUM(a.ended_us IS NULL), MAX(a.epoch), r.epoch
            FROM jobs_jobrun r JOIN jobs_jobattempt a ON a.run = r.id
            WHERE r.slot <= ? AND r.ended_us IS NOT NULL GROUP BY r.id
        """
        for run, attempt, state, count, open_ones, newest, epoch in self.ask(attempts, last):
            self.told["attempts"] += int(str(count))
            if open_ones or newest != epoch or int(str(count)) > int(str(attempt)):
                yield f"run {run} is {state} at attempt {attempt}, and has {count}, {open_ones} of them open"


#: Where a node may die, and where a worker; each before and after.
WHEN = ("before", "after")
OF_NODES = ("ReadCursors", "ClaimSlots", "OpenRuns", "Offer", "ReadOpen", "LeasesHeld")
OF_WORKERS = ("ReadRun", "Acquire", "Begin", "Renew", "End", "Release")


@pytest.fixture
def cluster(tmp_path: Path, prepared: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, prepared, seed=11)
    yield made
    made.end()


def test_every_slot_has_one_effective_run_or_one_row_with_a_reason(cluster: Cluster) -> None:
    cluster.make_jobs(JOBS)
    for number in range(NODES):
        cluster.start("node", number, (0.0, 90.0, -90.0, 0.0, 3.0)[number])
    for number in range(WORKERS):
        cluster.start("worker", number)
    cluster.until_started()
    faults: list[Callable[[Cluster], None]] = [
        Cluster.kill,
        Cluster.stop_beyond_the_lease,
        Cluster.two_at_once,
        Cluster.forget,
        Cluster.restart_store,
        Cluster.fail_over_to_an_empty_store,
        Cluster.lock_the_database,
        Cluster.kill,
    ]
    end, number = time.monotonic() + TROUBLED_S, 0
    while time.monotonic() < end:
        # Each in turn, so that the short form has them all.
        fault = faults[number % len(faults)]
        fault(cluster)
        cluster.told[fault.__name__] += 1
        number += 1
        time.sleep(cluster.rng.uniform(0.5, 2.0))
    last = int(time.time())
    cluster.until_over(last)
    found = list(cluster.tally(last))
    print("\n" + ", ".join(f"{count:,} {what}" for what, count in sorted(cluster.told.items())))
    assert found == []
    assert cluster.told["jobs"] == JOBS
    # Otherwise little was tried.
    assert cluster.told["slots done"] > cluster.told["slots"] / 3


@pytest.mark.long
def test_who_dies_before_or_after_any_step_leaves_nothing_undecided_and_nothing_done_twice(cluster: Cluster) -> None:
    cluster.make_jobs(4, attempts=3)
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
    found = list(cluster.tally(last))
    print("\n" + ", ".join(f"{count:,} {what}" for what, count in sorted(cluster.told.items())))
    assert found == []
    assert cluster.told["slots done"] > cluster.told["slots"] / 3
