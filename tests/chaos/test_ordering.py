"""Order over processes that join, leave and are killed while thousands of keyed messages flow, some of which fail."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.config import BusConfig
from engine.bus.consuming.lanes import LANE_AHEAD
from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem, Producer
from engine.bus.transports.redis_stream import open_transport
from engine.bus.transports.redis_stream.transport import RedisStreamTransport
from engine.core.facts import NullFacts
from hbus_console.supervisor.standalone import StandaloneStore
from tests.chaos.ordered_worker import ATTEMPTS, GROUP, LEASE_S, PARTITIONS, POISON, THREADS, TOPIC
from tests.form import size

pytestmark = pytest.mark.chaos

ROOT = Path(__file__).parents[2]
MESSAGES = size(12_000, short=6_000)
KEYS = 150
#: Real seconds after which what does not happen has failed.
PATIENCE_S = 240.0


class Fleet:
    """Worker processes on one topic, and what they noted."""

    def __init__(self, url: str, prefix: str, on_failed_head: str, *, journal_url: str = "") -> None:
        self.transport: RedisStreamTransport = open_transport(BusConfig(url=url, prefix=prefix))
        self.transport.admin.create_topic(TOPIC)
        self.transport.set_partitions(TOPIC, PARTITIONS)
        self.transport.admin.create_group(TOPIC, GROUP)
        topic = TopicPolicy(TOPIC, "inventory", ordering="key", partitions=PARTITIONS)
        self.producer = Producer(lambda _: self.transport, StaticCatalog(topic), source="/chaos", facts=NullFacts())
        self.store = redis.Redis.from_url(journal_url or url)
        self._environment = {**os.environ, "REDIS_URL": url, "JOURNAL_URL": journal_url or url}
        self._prefix = prefix
        self._on_failed_head = on_failed_head
        #: Between two attempts.
        self.pause_s = 0.05
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._number = 0
        self.events: Counter[str] = Counter()

    def publish(self, start: int, number: int) -> None:
        """Each key's numbers grow; the type carries the number."""
        items = [BatchItem(None, PublishOptions(type=str(n), key=f"k{n % KEYS}")) for n in range(start, start + number)]
        assert all(not isinstance(answer, Exception) for answer in self.producer.publish_batch(TOPIC, items))

    def join(self) -> str:
        self._number += 1
        name = f"w{self._number}"
        command = [sys.executable, "-m", "tests.chaos.ordered_worker", self._prefix, name]
        command += [self._on_failed_head, str(self.pause_s)]
        process = subprocess.Popen(command, cwd=ROOT, env=self._environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        self._running[name] = process
        assert process.stdout.readline() == "started\n"
        self.events["join"] += 1
        return name

    def leave(self, name: str) -> None:
        process = self._running.pop(name)
        process.terminate()
        said, _ = process.communicate(timeout=120)
        assert said == "clean\n"
        self.events["leave"] += 1

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.communicate()
        self.store.rpush(f"{self._prefix}:journal", f"killed {name} - 0")
        self.events["kill"] += 1

    def freeze(self, name: str) -> None:
        """Stop a process without ending it, as a host that hangs or a long pause of a collector would."""
        self._running[name].send_signal(signal.SIGSTOP)
        # From now on nobody waits for it, and it does nothing.
        self.store.rpush(f"{self._prefix}:journal", f"frozen {name} - 0")
        self.events["freeze"] += 1

    def thaw(self, name: str) -> None:
        self._running[name].send_signal(signal.SIGCONT)

    def any(self, rng: random.Random) -> str:
        return rng.choice(sorted(self._running))

    def at_work(self, since: int) -> str:
        """Whoever has just begun one of the messages from ``since`` on: it has more of them in hand."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for line in reversed(self.store.lrange(f"{self._prefix}:journal", -20, -1)):
                what, worker, _, n = line.decode().split()
                if what == "begin" and int(n) >= since and worker in self._running:
                    return worker
        raise AssertionError(f"nobody begins: {self.transport.admin.lag(TOPIC, GROUP)}, {self.owners()}")

    def until_settled(self, left: int = 0) -> None:
        """Wait until no more than ``left`` messages, all parked, are unsettled."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            lag = self.transport.admin.lag(TOPIC, GROUP)
            if lag.unsettled is not None and lag.unsettled - lag.parked <= left:
                return
            time.sleep(0.1)
        raise AssertionError(f"still unsettled: {lag}, {self.transport.owners(TOPIC, GROUP)}")

    def owners(self) -> list[str]:
        return [owned.consumer for owned in self.transport.owners(TOPIC, GROUP)]

    def journal(self) -> list[tuple[str, str, str, int]]:
        lines = [line.decode().split() for line in self.store.lrange(f"{self._prefix}:journal", 0, -1)]
        return [(what, worker, key, int(n)) for what, worker, key, n in lines]

    def mend(self) -> None:
        self.store.set(f"{self._prefix}:mended", 1)

    def end(self) -> None:
        for process in self._running.values():
            process.kill()
            process.communicate()
        self.producer.close()
        self.transport.admin.delete_topic(TOPIC)
        self.store.delete(f"{self._prefix}:journal", f"{self._prefix}:mended")
        self.transport.close()
        self.store.close()


@pytest.fixture
def fleet(request: pytest.FixtureRequest, redis_url: str, prefix: str) -> Iterator[Fleet]:
    made = Fleet(redis_url, prefix, request.param)
    yield made
    made.end()


def stir(fleet: Fleet) -> None:
    """Three workers; then others join, leave and are killed, each while messages flow."""
    rng = random.Random(11)
    part = MESSAGES // 6
    fleet.publish(0, part)
    for _ in range(3):
        fleet.join()
    for step, event in enumerate(("kill", "join", "leave", "kill and join", "join"), start=1):
        fleet.publish(step * part, part)
        busy = fleet.at_work(step * part)
        if "kill" in event:
            fleet.kill(busy)
        if "join" in event:
            fleet.join()
        if event == "leave":
            fleet.leave(fleet.any(rng))


def check_order(journal: list[tuple[str, str, str, int]]) -> Counter[str]:
    """Per key: first handlings in the order of publishing, no worker out of order, nothing settled begun again, and
    never two live workers at one key at a time.

    A thread that was frozen between being allowed to begin and saying so says it when it wakes: once, and no more.
    """
    first: dict[str, int] = defaultdict(lambda: -1)
    by_worker: dict[tuple[str, str], int] = defaultdict(lambda: -1)
    at_work: dict[str, set[str]] = defaultdict(set)
    settled: set[int] = set()
    counts: Counter[str] = Counter()
    seen: set[int] = set()
    frozen: Counter[str] = Counter()
    overtaken: Counter[str] = Counter()
    for what, worker, key, n in journal:
        counts[what] += 1
        if what in ("killed", "frozen"):
            frozen[worker] = 0
            for workers in at_work.values():
                workers.discard(worker)
        elif what == "begin" and worker in frozen and (n in settled or at_work[key] - {worker}):
            frozen[worker] += 1
            assert frozen[worker] <= THREADS, f"{worker} goes on with what is not its own any more"
        elif what == "begin":
            assert n not in settled, f"{n} of {key} was settled and is delivered again"
            assert at_work[key] <= {worker}, f"{key} is handled by {at_work[key]} and {worker}"
            at_work[key].add(worker)
        elif what == "settled":
            settled.add(n)
        else:
            at_work[key].discard(worker)
        if what == "end":
            if n not in seen:
                assert n > first[key], f"{n} of {key} was handled after {first[key]}"
                first[key] = n
                seen.add(n)
            else:
                counts["handled again after a kill"] += 1
                if n < first[key]:
                    counts["of these after a later one of its key"] += 1
                    overtaken[key] += 1
            assert n > by_worker[worker, key], f"{worker} handled {n} of {key} after {by_worker[worker, key]}"
            by_worker[worker, key] = n
    counts["handled"] = len(seen)
    # Each time that an owner dies, or another takes over from it, and no more than it was ahead of the store.
    assert max(overtaken.values(), default=0) <= LANE_AHEAD * (counts["killed"] + counts["frozen"])
    return counts


def report(fleet: Fleet, counts: Counter[str]) -> None:
    totals = fleet.transport.admin.counts(TOPIC, GROUP)
    # Otherwise nothing was tried: the kills found nobody at work.
    assert totals.get("lapsed", 0) > 0
    moved = [owned.epoch for owned in fleet.transport.owners(TOPIC, GROUP)]
    print(f"\npublished {MESSAGES}, events {dict(fleet.events)}, epochs of the partitions {moved}")
    print(f"noted by the workers {dict(counts)}")
    print(f"counted by the store {totals}")


@pytest.mark.parametrize("fleet", ["block"], indirect=True)
def test_order_is_kept_while_consumers_join_leave_and_are_killed(fleet: Fleet) -> None:
    stir(fleet)
    fleet.until_settled()
    counts = check_order(fleet.journal())
    report(fleet, counts)
    totals = fleet.transport.admin.counts(TOPIC, GROUP)
    dead = MESSAGES // POISON
    assert totals["dead"] == dead
    assert totals["settled"] == MESSAGES - dead
    assert counts["handled"] == MESSAGES - dead


@pytest.mark.parametrize("fleet", ["park"], indirect=True)
def test_parked_keys_keep_their_order_through_the_same_and_go_on_when_somebody_decides(fleet: Fleet) -> None:
    stir(fleet)
    fleet.until_settled()
    poisoned = {n for n in range(MESSAGES) if n % POISON == POISON - 1}
    parked = fleet.transport.parked(TOPIC, GROUP)
    assert {each.key for each in parked} == {f"k{n % KEYS}" for n in poisoned}
    # While others decide, workers come and go.
    fleet.mend()
    decided = dict(zip([each.key for each in parked], ["retry", "skip", "dead"] * 3, strict=False))
    for key, head in decided.items():
        assert fleet.transport.unpark(TOPIC, GROUP, key, head) is not None
    fleet.kill(fleet.any(random.Random(5)))
    fleet.until_settled()
    assert fleet.transport.parked(TOPIC, GROUP) == []
    counts = check_order(fleet.journal())
    report(fleet, counts)
    verdicts = Counter(decided.values())
    totals = fleet.transport.admin.counts(TOPIC, GROUP)
    assert (totals["skipped"], totals["dead"]) == (verdicts["skip"], verdicts["dead"])
    assert totals["settled"] == MESSAGES - verdicts["skip"] - verdicts["dead"]
    assert counts["handled"] == totals["settled"]


def test_no_message_is_tried_more_often_than_allowed_however_often_consumers_and_store_are_killed(
    own_store: StandaloneStore, redis_url: str, prefix: str
) -> None:
    fleet = Fleet(own_store.url, prefix, "block", journal_url=redis_url)

    def tried() -> Counter[int]:
        return Counter(n for what, _, _, n in fleet.journal() if what == "fail")

    try:
        poison = [POISON * each - 1 for each in range(1, 7)]
        for n in poison:
            # Each with others of its keys before and behind it.
            fleet.publish(n - KEYS, 2 * KEYS)
        for kills in range(4):
            name, before = fleet.join(), tried()
            deadline = time.monotonic() + PATIENCE_S
            # It has tried some of them again by itself: the kill finds it between two attempts.
            while max((tried() - before)[n] for n in poison) < 2 and time.monotonic() < deadline:
                lag = fleet.transport.admin.lag(TOPIC, GROUP)
                if not lag.unsettled:
                    break
            if kills % 2:
                own_store.kill()
            fleet.kill(name)
            if kills % 2:
                own_store.start()
        fleet.join()
        fleet.until_settled()
        times = tried()
        print(f"\ntimes that each of {len(poison)} poison messages was tried: {[times[n] for n in poison]}")
        print(f"counted by the store {fleet.transport.admin.counts(TOPIC, GROUP)}")
        assert max(times.values()) <= ATTEMPTS
        assert fleet.transport.admin.counts(TOPIC, GROUP)["dead"] == len(poison)
    finally:
        fleet.end()


@pytest.mark.parametrize("fleet", ["block"], indirect=True)
def test_no_message_is_tried_more_often_than_allowed_though_all_are_frozen_between_two_attempts(fleet: Fleet) -> None:
    poison = [POISON * each - 1 for each in range(1, 5)]
    fleet.pause_s = 1.0
    names = [fleet.join() for _ in range(2)]
    deadline = time.monotonic() + PATIENCE_S
    for n in poison:
        fleet.publish(n, 1)
        while ("fail", n) not in {(what, number) for what, _, _, number in fleet.journal()}:
            assert time.monotonic() < deadline
        for name in names:
            fleet.freeze(name)
        # The leases of all run out, and nobody is there to take them.
        time.sleep(LEASE_S + 0.5)
        for name in names:
            fleet.thaw(name)
    fleet.until_settled()
    times = Counter(n for what, _, _, n in fleet.journal() if what == "fail")
    print(f"\ntimes that each of {len(poison)} poison messages was tried: {[times[n] for n in poison]}")
    assert max(times.values()) <= ATTEMPTS
    assert fleet.transport.admin.counts(TOPIC, GROUP)["dead"] == len(poison)


@pytest.mark.parametrize("fleet", ["block"], indirect=True)
def test_an_owner_that_was_frozen_disturbs_nobody_when_it_wakes(fleet: Fleet) -> None:
    fleet.publish(0, MESSAGES // 4)
    fleet.join()
    frozen = fleet.join()
    fleet.join()
    deadline = time.monotonic() + PATIENCE_S
    while frozen not in fleet.owners() and time.monotonic() < deadline:
        time.sleep(0.05)
    fleet.publish(MESSAGES // 4, MESSAGES // 4)
    time.sleep(0.3)
    fleet.freeze(frozen)
    while frozen in fleet.owners() and time.monotonic() < deadline:
        time.sleep(0.05)
    fleet.publish(MESSAGES // 2, MESSAGES // 2)
    # Others own what was its, and have begun with it.
    time.sleep(LEASE_S)
    fleet.thaw(frozen)
    fleet.until_settled()
    counts = check_order(fleet.journal())
    report(fleet, counts)
    totals = fleet.transport.admin.counts(TOPIC, GROUP)
    assert totals["settled"] == counts["handled"] == MESSAGES - totals["dead"]


@pytest.mark.parametrize("fleet", ["block"], indirect=True)
def test_partitions_are_shared_evenly_whoever_comes_and_goes(fleet: Fleet) -> None:
    def shared_by(number: int) -> None:
        """Soon every partition has a living owner, and no owner more than one partition beyond another."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            owners = Counter(fleet.owners())
            if "" not in owners and len(owners) == number and max(owners.values()) - min(owners.values()) <= 1:
                return
            time.sleep(0.05)
        raise AssertionError(fleet.owners())

    first = fleet.join()
    shared_by(1)
    second = fleet.join()
    fleet.join()
    shared_by(3)
    fleet.kill(second)
    shared_by(2)
    fleet.leave(first)
    shared_by(1)
