"""Ten kills at random points over 100,000 events of the hotel leave every effect exactly once."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis

from engine.bus.catalog import StaticCatalog
from engine.bus.config import BusConfig
from engine.bus.conformance.running import FactRecorder
from engine.bus.delays import RedisDelays
from engine.bus.message import decode
from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem, Producer
from engine.bus.transports.redis_stream import open_transport
from engine.core.errors import HbusError, Unavailable
from examples.hotel.bookings import Feed, read_feed
from examples.hotel.lifecycle import moments
from examples.hotel.simulator import simulate
from hbus_console.state import ROOT
from hbus_console.supervisor.standalone import StandaloneStore
from tests.chaos.effects_roles import GROUP, POISON, POLICY, TABLES, TOPIC
from tests.form import size

pytestmark = pytest.mark.chaos

EVENTS = int(os.environ.get("HBUS_CHAOS_EVENTS", "0")) or size(100_000, short=20_000)
KILLS = 10
BATCH = 500
#: One event of so many is published with a delay, so that the keeper has something to lose.
DELAYED = 50
#: Bookings enough for a third of the events: the feed is played about three times, each under a name of its own.
ROUNDS = 3
#: Real seconds after which what does not happen has failed.
PATIENCE_S = 300.0


def hotel() -> Feed:
    """The bookings file if there is one, else as many simulated ones."""
    file, enough = os.environ.get("BOOKINGS", ""), EVENTS // (2 * ROUNDS) + 1
    return read_feed(Path(file), enough) if file else simulate(enough)


def events() -> Iterator[tuple[int, str, dict[str, Any]]]:
    feed = hotel()
    played = (
        (f"{turn}-{moment.id}", msgspec.to_builtins(moment.event)) for turn in count() for moment in moments(feed)
    )
    for n, (name, told) in enumerate(islice(played, EVENTS), start=1):
        yield n, name, {"n": n, "event": name, "told": told}


class Installation:
    """A store, two workers and two keepers, any of which may be killed and comes again."""

    def __init__(self, folder: Path) -> None:
        # What was confirmed must survive the kill of the store, or nothing could be counted.
        self.store = StandaloneStore(folder / "store", fsync="always").start()
        self.database = folder / "effects.sqlite"
        self.tables = sqlite3.connect(self.database, timeout=60, isolation_level=None)
        self.tables.executescript("PRAGMA journal_mode=WAL;" + TABLES)
        self.transport = open_transport(BusConfig(url=self.store.url, prefix="ten"))
        self.transport.admin.create_topic(TOPIC)
        self.transport.admin.create_group(TOPIC, GROUP)
        self._client = redis.Redis.from_url(self.store.url)
        self.delays = RedisDelays(self._client, "ten")
        self.facts = FactRecorder()
        self.producer = Producer(
            lambda _: self.transport, StaticCatalog(POLICY), source="/hotel", facts=self.facts, delays=self.delays
        )
        self._processes: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self._log = (folder / "roles.log").open("ab")
        for slot in (1, 2):
            self._start("worker", slot)
            self._start("keeper", slot)

    def kill(self, victim: tuple[str, int]) -> None:
        if victim[0] == "store":
            self.store.kill()
            self.store.start()
            return
        process = self._processes.pop(victim)
        process.kill()
        process.wait()
        self._start(*victim)

    def publish(self, batch: list[BatchItem]) -> Counter[str]:
        """Until each is confirmed; what came of each, and how many answers were lost or refused before."""
        told: Counter[str] = Counter()
        deadline = time.monotonic() + PATIENCE_S
        while batch:
            assert time.monotonic() < deadline
            answers = self.producer.publish_batch(TOPIC, batch)
            again = []
            for item, answer in zip(batch, answers, strict=True):
                if isinstance(answer, HbusError):
                    assert isinstance(answer, Unavailable), answer
                    again.append(item)
                else:
                    told[str(answer.status)] += 1
            told["repeated"] += len(again)
            if again:
                time.sleep(0.05)
            batch = again
        return told

    def count(self, table: str) -> int:
        return int(self.tables.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])

    def until_settled(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                lag = self.transport.admin.lag(TOPIC, GROUP)
                if lag.unsettled == 0 and self.delays.count() == 0:
                    return
            except Unavailable:
                pass
            time.sleep(0.1)
        raise AssertionError(f"still unsettled: {lag}, {self.delays.count()} delayed")

    def redrive(self) -> int:
        """What the keeper and an operator do: every dead letter becomes a new message caused by the old one."""
        self.tables.execute("INSERT INTO mended VALUES (1)")
        redriven = 0
        while letters := self.transport.admin.dead(TOPIC, GROUP, 100):
            originals = [decode(letter.body) for letter in letters]
            self.publish(
                [
                    BatchItem(
                        message.json(),
                        PublishOptions(
                            message_id=f"redriven-{message.id}",
                            idempotency_key=f"redrive:{message.id}",
                            causation_id=message.id,
                        ),
                    )
                    for message in originals
                ]
            )
            redriven += self.transport.admin.forget_dead(TOPIC, GROUP, [letter.entry for letter in letters])
        return redriven

    def end(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._log.close()
        self.producer.close(1.0)
        self.transport.close()
        self._client.close()
        self.tables.close()
        self.store.kill()

    def _start(self, role: str, slot: int) -> None:
        self._processes[role, slot] = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.effects_roles", role, "ten", f"{role}-{slot}", str(self.database)],
            cwd=ROOT,
            env={**os.environ, "REDIS_URL": self.store.url},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )


class Killer(threading.Thread):
    """Kills when the effects have come so far; the store twice, workers and keepers the rest."""

    def __init__(self, installation: Installation, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self._installation = installation
        others = [(role, slot) for role in ("worker", "keeper") for slot in (1, 2)]
        victims = [("store", 0), ("store", 0), *others, *(rng.choice(others) for _ in range(KILLS - 6))]
        rng.shuffle(victims)
        points = sorted(rng.randrange(EVENTS // 50, EVENTS * 9 // 10) for _ in victims)
        self.plan = list(zip(points, victims, strict=True))
        self.done: list[str] = []

    def run(self) -> None:
        tables = sqlite3.connect(self._installation.database, timeout=60)
        for point, victim in self.plan:
            # Rows are never deleted: the last number is the count, and costs nothing to read.
            while (tables.execute("SELECT MAX(rowid) FROM effect").fetchone()[0] or 0) < point:
                time.sleep(0.01)
            self._installation.kill(victim)
            self.done.append(f"{victim[0]}@{point}")
        tables.close()


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path)
    yield made
    made.end()


def test_ten_kills_leave_every_effect_exactly_once(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("HBUS_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
    begun = time.monotonic()
    killer = Killer(installation, random.Random(seed))
    with capsys.disabled():
        print(f"\nten kills: seed {seed} (HBUS_CHAOS_SEED={seed} repeats the plan), {EVENTS} events")
    killer.start()

    # Given all events of the hotel, each published until it is confirmed
    told: Counter[str] = Counter()
    names: set[str] = set()
    stream = events()
    while batch := list(islice(stream, BATCH)):
        names.update(name for _, name, _ in batch)
        told += installation.publish(
            [
                BatchItem(
                    event,
                    PublishOptions(
                        message_id=name,
                        idempotency_key=name,
                        key=str(event["told"].get("booking", "")),
                        delay_s=1.0 if n % DELAYED == 0 else None,
                    ),
                )
                for n, name, event in batch
            ]
        )

    # When everything has been handled in spite of ten kills, and what died was redriven
    killer.join(PATIENCE_S)
    assert len(killer.done) == KILLS, killer.plan
    installation.until_settled()
    dead = installation.transport.admin.lag(TOPIC, GROUP).dead
    redriven = installation.redrive()
    installation.until_settled()

    # Then the numbers add up, and each event has had its effect once
    effects = Counter(name for (name,) in installation.tables.execute("SELECT event FROM effect"))
    failed, repeated = installation.count("failed"), installation.count("repeated")
    attempts = effects.total() + failed + repeated
    stored = installation.transport.admin.counts(TOPIC)
    report = {
        "seed": seed,
        "kills": killer.done,
        "published": EVENTS,
        "stored": told["stored"],
        "delayed": told["delayed"],
        "publishes repeated": told["repeated"],
        "of these stored before": told["duplicate"],
        "delivered": attempts,
        "attempts": {"with effect": effects.total(), "failed": failed, "deduplicated by the inbox": repeated},
        "dead": dead,
        "redriven": redriven,
        "seconds": round(time.monotonic() - begun, 1),
    }
    with capsys.disabled():
        print(json.dumps({**report, "topic": stored}, indent=1))
    assert len(names) == EVENTS
    assert told["stored"] + told["delayed"] + told["duplicate"] == EVENTS
    assert dead == redriven == EVENTS // POISON
    assert effects.keys() == names
    assert effects.total() == EVENTS
    # The topic itself holds each event once, and each redriven copy once.
    assert installation.transport.admin.depth(TOPIC).messages == EVENTS + redriven
