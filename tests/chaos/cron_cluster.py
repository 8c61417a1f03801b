"""Nodes and workers of the slot protocol as real processes, on a store and a database of their own; their troubles."""

from __future__ import annotations

import os
import random
import secrets
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import redis

from hbus_console.state import ROOT
from hbus_console.supervisor.standalone import StandaloneStore
from tests.chaos.cron_jobs import BEHIND, ChaosJob
from tests.chaos.cron_process import LEASE_S, SLOW_S
from tests.chaos.island import Island, NoIsland
from tests.form import size
from tests.skips import NOT_ALLOWED

#: Real seconds after which what is not over has failed.
PATIENCE_S = 900.0
OPEN = "SELECT COUNT(*) FROM jobs_jobrun WHERE ended_us IS NULL"
STILL_OPEN = "SELECT * FROM jobs_jobrun WHERE ended_us IS NULL LIMIT 20"
OFF_DUTY = "off duty"
NEW_VERSION = """
    INSERT INTO jobs_jobversion (job_id, number, settings, audit_seq, made_at) SELECT id, version, '{}', 1, '2026-11-23'
"""
ENDED = """
    SELECT 'run-' || id FROM jobs_jobrun
    WHERE job = 'job0' AND ended_us IS NOT NULL AND state <> 'skipped' AND slot <= ?
"""
#: Those in a network of their own, where there may be one.
ISLANDERS = ("node3", "node4", "worker2")


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
        self.store = StandaloneStore(folder / "store", fsync="always")
        self.island: Island | None = None
        #: Why there is none.
        self.no_island = ""
        try:
            self.island = self._make_island()
        except NoIsland as error:
            self.no_island = f"{NOT_ALLOWED}cutting anybody off from the network: {error}"
        self._environment = {
            **os.environ,
            "STATE": str(self.state),
            "REDIS_URL": self.store.url,
            "HBUS_PREFIX": f"cron{secrets.token_hex(4)}",
            "DJANGO_SETTINGS_MODULE": "hbus_console.settings",
        }
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self.jobs: dict[str, ChaosJob] = {}
        #: Behind which all slots are to have a row.
        self.made_at = 0
        self.told: Counter[str] = Counter()

    def _make_island(self) -> Island:
        """With the store started, which is reached from there where one can be had."""
        try:
            island = Island()
        except NoIsland:
            self.store.start()
            raise
        config = self.store.folder / "valkey.conf"
        words = config.read_text(encoding="utf-8")
        config.write_text(words.replace("bind 127.0.0.1", f"bind 127.0.0.1 {island.outside}"), encoding="utf-8")
        self.store.start()
        if met := island.met(self.store.port):
            island.end()
            raise NoIsland(f"a connection over its wire met {met}")
        return island

    def ask(self, query: str, *arguments: object) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.database, timeout=30)) as connection, connection:
            return connection.execute(query, arguments).fetchall()

    def make_jobs(self, jobs: Iterable[ChaosJob]) -> None:
        self.jobs = {job.name: job for job in jobs}
        self.made_at = int(time.time())
        with closing(sqlite3.connect(self.database, timeout=30)) as connection, connection:
            for table in ("chaos_effect", "chaos_refused"):
                connection.execute(
                    f"CREATE TABLE {table} (run INTEGER, job TEXT, slot INTEGER, epoch INTEGER, owner TEXT)"
                )
            connection.execute(
                "INSERT OR IGNORE INTO topics_team (id, name, contact, created_at) VALUES (1, 'ops', 'ops', '2026')"
            )
            rows = [job.row() for job in self.jobs.values()]
            columns = list(rows[0])
            connection.executemany(
                f"INSERT INTO jobs_job ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
                [[row[column] for column in columns] for row in rows],
            )
            # Without one a node asks for all jobs again and again: it cannot know what has changed.
            connection.execute(f"{NEW_VERSION} FROM jobs_job")
            connection.execute(
                "INSERT INTO jobs_jobcursor (job, version, at) SELECT name, 1, ? FROM jobs_job", [self.made_at]
            )
            connection.execute(
                "INSERT INTO jobs_jobafter (job_id, upstream, ended) SELECT id, 'job0', 'any' FROM jobs_job"
                " WHERE name = ?",
                [BEHIND],
            )

    def put_on_duty(self, names: Collection[str]) -> None:
        """These run, and all others are paused: each that changes has a new version, as if somebody had saved it."""
        chosen = f"name IN ({', '.join('?' * len(names))})"
        changed = f"paused = ({chosen})"
        with closing(sqlite3.connect(self.database, timeout=60, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TEMP TABLE changed AS SELECT id, name FROM jobs_job WHERE " + changed, [*names])
            connection.execute(
                f"UPDATE jobs_job SET version = version + 1, paused = NOT ({chosen}), pause_reason = ?"
                " WHERE id IN (SELECT id FROM changed)",
                [*names, OFF_DUTY],
            )
            connection.execute(f"{NEW_VERSION} FROM jobs_job WHERE id IN (SELECT id FROM changed)")
            connection.execute(
                "UPDATE jobs_jobcursor SET version = version + 1 WHERE job IN (SELECT name FROM changed)"
            )
            connection.execute("COMMIT")

    @contextmanager
    def in_shifts(self, shifts: Sequence[Collection[str]], each_s: float) -> Iterator[None]:
        """Those of one shift after the other are on duty as long as the block lasts, and nobody behind it."""
        over = threading.Event()

        def change() -> int:
            number = 0
            while not over.is_set():
                self.put_on_duty(shifts[number % len(shifts)])
                number += 1
                over.wait(each_s)
            return number

        with ThreadPoolExecutor(1) as one:
            changing = one.submit(change)
            try:
                yield
            finally:
                over.set()
            self.told["shifts"] = changing.result()
        self.put_on_duty(())

    def start(self, kind: str, number: int, skew_s: float = 0.0, **environment: str) -> None:
        name = f"{kind}{number}"
        command = [sys.executable, "-m", "tests.chaos.cron_process", kind, name, str(skew_s)]
        variables = {**self._environment, **environment}
        if self.island is not None and name in ISLANDERS:
            command = [*self.island.inside, *command]
            variables["REDIS_URL"] = self.store.url.replace("127.0.0.1", self.island.outside)
        self._processes[name] = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True)

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
        if self.island is not None:
            self.island.end()

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

    def partition(self) -> None:
        """In the whole form until what was begun inside has lost its lease, and who lost it comes to write."""
        with self.cut_off():
            time.sleep(size(SLOW_S, short=LEASE_S + 2))

    def partition_of_answers(self) -> None:
        """Leases are renewed, and nobody inside knows."""
        with self.cut_off(answers_alone=True):
            time.sleep(LEASE_S + 2)

    @contextmanager
    def cut_off(self, *, answers_alone: bool = False) -> Iterator[None]:
        """The store cannot be reached from inside for as long as the block lasts, and the database can."""
        island, port = self.island, self.store.port
        assert island is not None
        self.until(lambda: island.met(port) == "", "the store is reached from inside")
        island.cut(answers_alone=answers_alone)
        try:
            # Not refused, nor known to be unreachable: what was sent has vanished.
            assert island.met(port) == "TimeoutError"
            before = self._written_inside()
            yield
            written = self._written_inside() - before
            assert island.met(port) == "TimeoutError"
        finally:
            island.heal()
        self.until(lambda: island.met(port) == "", "the store is reached from inside again")
        self.told.update({f"{what} of who was cut off": count for what, count in written.items()})

    def _written_inside(self) -> Counter[str]:
        """What workers inside have tried to write, by what became of it."""
        inside = " OR ".join(f"owner LIKE '{name}#%'" for name in ISLANDERS)
        return Counter(
            {
                what: int(str(self.ask(f"SELECT COUNT(*) FROM {table} WHERE {inside}")[0][0]))
                for what, table in (("effects", "chaos_effect"), ("refused effects", "chaos_refused"))
            }
        )

    # The end ----------------------------------------------------------------------------------------------------------

    def until(self, truth: Callable[[], bool], what: str, patience_s: float = 120) -> None:
        deadline = time.monotonic() + patience_s
        while not truth():
            assert time.monotonic() < deadline, f"not within {patience_s:.0f} s: {what}; {self.ask(STILL_OPEN)}"
            time.sleep(0.2)

    def until_decided(self, last: int) -> None:
        """Every slot up to ``last`` has its row."""

        def is_decided() -> bool:
            behind = self.ask("SELECT job, at FROM jobs_jobcursor WHERE at < ?", last)
            return not any(self.jobs[str(name)].slots(int(str(at)), last) for name, at in behind)

        self.until(is_decided, "every slot is decided", PATIENCE_S)

    def until_over(self, last: int) -> None:
        """Nothing more becomes of the slots up to ``last``, nor of what follows their ends."""
        self.until_decided(last)

        def is_over() -> bool:
            ((still,),) = self.ask(f"{OPEN} AND slot <= ?", last)
            ((follows,),) = self.ask(f"{OPEN} AND kind = 'after' AND key IN ({ENDED})", last)
            return still == follows == 0

        self.until(is_over, "every slot is over", PATIENCE_S)
