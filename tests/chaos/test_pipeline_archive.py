"""The archive under kills: its driver, Spark's Python workers, and the store at the same time, while it is written to
and while somebody reads it all along."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from engine.bus import BusConfig, Message, open_transport
from engine.bus.message import encode
from engine.bus.transport import Outgoing, Status
from engine.core.clock import ManualClock, SystemClock
from engine.core.errors import HbusError, Unavailable
from engine.pipeline.archive.archiving import Archiver
from engine.pipeline.archive.tasks import in_this_process
from engine.pipeline.lake.lake import GRACE_S, Lake
from engine.pipeline.lake.state import Act
from hbus_console.state import ROOT
from hbus_console.supervisor.standalone import StandaloneStore
from tests.form import size

pytestmark = pytest.mark.chaos

TOPIC = "booking.created"
BATCH = 100
#: Real seconds after which what does not happen has failed.
PATIENCE_S = 240.0
WINDOW_MS = 3_600_000


@dataclass
class Publisher:
    """Publishes until it is told to end; what is not confirmed is sent again under its key."""

    config: BusConfig
    ended: threading.Event = field(default_factory=threading.Event)
    confirmed: int = 0

    def run(self) -> None:
        transport = open_transport(self.config)
        while not self.ended.is_set():
            batch = [self._outgoing(number) for number in range(self.confirmed, self.confirmed + BATCH)]
            while True:
                outcomes = transport.publish(TOPIC, batch)
                if all(outcome.status in (Status.OK, Status.DUPLICATE) for outcome in outcomes):
                    break
                time.sleep(0.05)
            self.confirmed += BATCH
            time.sleep(0.01)
        transport.close()

    @staticmethod
    def _outgoing(number: int) -> Outgoing:
        body = encode(Message(id=f"m{number}", source="/chaos", type="t", partitionkey=f"k{number % 13}"))
        return Outgoing(f"m{number}", body, idempotency_key=f"m{number}", idempotency_window_ms=WINDOW_MS)


@dataclass
class Reader:
    """Reads the whole lake again and again: every file that counts is whole, and never is there less than before."""

    lake: Lake
    ended: threading.Event = field(default_factory=threading.Event)
    looks: int = 0
    seen: int = 0
    wrong: list[str] = field(default_factory=list)

    def run(self) -> None:
        while not self.ended.is_set() and not self.wrong:
            try:
                ids = ids_of(self.lake)
            except (HbusError, OSError, ValueError) as error:
                self.wrong.append(repr(error))
                return
            if len(ids) < self.seen:
                self.wrong.append(f"{len(ids)} messages after {self.seen}")
            if len(ids) != len(set(ids)):
                self.wrong.append(f"doubled: {Counter(ids).most_common(3)}")
            self.seen, self.looks = len(ids), self.looks + 1
            time.sleep(0.05)


def is_worker(process: psutil.Process) -> bool:
    try:
        return "pyspark.daemon" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def ids_of(lake: Lake) -> list[str]:
    found: list[str] = []
    for path in lake.paths(lake.state().files_of(TOPIC)):
        found += pq.read_table(path, columns=["id"])["id"].to_pylist()
    return found


@dataclass
class Rig:
    store: StandaloneStore
    lake: Lake
    config: BusConfig
    how: str
    scratch: Path
    rng: random.Random
    process: subprocess.Popen[str] | None = None
    starts: int = 0
    kills: Counter[str] = field(default_factory=Counter)

    def start(self) -> None:
        self.starts += 1
        words = [self.config.url, self.config.prefix, TOPIC, str(self.lake.root), self.how]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.archive_process", *words, str(self.scratch / str(self.starts))],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        # It has archived once: whatever it is killed in, it is not its own start.
        assert self.process.stdout is not None
        assert self.process.stdout.readline(), "it ended by itself"
        # Nobody reads on: what is printed must not fill the pipe.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def kill_driver(self) -> None:
        assert self.process is not None
        children = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait()
        # Spark ends by itself when its driver is gone.
        _, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
        assert not alive
        self.kills["driver"] += 1
        self.start()

    def kill_worker(self) -> None:
        """One of Spark's Python workers, if one is alive; else the driver."""
        assert self.process is not None
        workers = [each for each in psutil.Process(self.process.pid).children(recursive=True) if is_worker(each)]
        if not workers:
            self.kill_driver()
            return
        self.rng.choice(workers).kill()
        self.kills["Python worker"] += 1

    def kill_store(self) -> None:
        self.store.kill()
        self.store.start()
        self.kills["store"] += 1

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture(params=["plain", pytest.param("spark", marks=pytest.mark.whole)])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    store = StandaloneStore(tmp_path / "store", fsync="always").start()
    config = BusConfig("redis_stream", store.url, "chaos")
    transport = open_transport(config)
    transport.admin.create_topic(TOPIC)
    transport.close()
    made = Rig(store, Lake(tmp_path / "lake"), config, request.param, tmp_path / "spark", random.Random(29))
    yield made
    made.end()
    store.kill()


def test_kills_at_random_lose_and_double_nothing(rig: Rig) -> None:
    rounds = size(10, short=6)
    publisher, reader = Publisher(rig.config), Reader(rig.lake)
    threads = [threading.Thread(target=each.run) for each in (publisher, reader)]
    for thread in threads:
        thread.start()
    try:
        rig.start()
        for _ in range(rounds):
            time.sleep(rig.rng.uniform(0.2, 2.0))
            acts = rig.rng.sample([rig.kill_driver, rig.kill_worker, rig.kill_store], rig.rng.choice([1, 2, 2]))
            for act in acts:
                act()
    finally:
        publisher.ended.set()
        threads[0].join(PATIENCE_S)
    rig.end()
    archive_the_rest(rig)
    reader.ended.set()
    threads[1].join(PATIENCE_S)

    assert reader.wrong == []
    assert Counter(ids_of(rig.lake)) == Counter(f"m{number}" for number in range(publisher.confirmed))
    assert rig.lake.state().topics[TOPIC].losses == []
    assert list(rig.lake.verify()) == []
    for key in range(13):
        numbers = [int(id_[1:]) for id_ in ids_of(rig.lake) if int(id_[1:]) % 13 == key]
        assert numbers == sorted(numbers), f"the order of k{key}"
    compactions = sum(commit.act is Act.COMPACTION for commit in rig.lake.commits())
    assert compactions
    # Once nobody can be reading what was merged.
    Lake(rig.lake.root, ManualClock(start_ms=SystemClock().now_ms() + int(GRACE_S * 1000) + 1_000)).sweep()
    counting = set(rig.lake.paths(list(rig.lake.state().files.values())))
    assert {str(path) for path in (rig.lake.root / "data").rglob("*") if path.is_file()} == counting
    print(
        f"{rig.how}: {publisher.confirmed:,} messages in {len(counting)} files and {rig.lake.state().version} commits,"
        f" {compactions} of them compactions, killed {dict(rig.kills)},"
        f" read whole {reader.looks} times meanwhile: none lost, none doubled, each key in its order"
    )


def archive_the_rest(rig: Rig) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            Archiver(rig.lake, rig.config, in_this_process).run([TOPIC])
            return
        except Unavailable:
            assert time.monotonic() < deadline
            time.sleep(0.2)
