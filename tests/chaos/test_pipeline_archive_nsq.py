"""The archive of a topic on NSQ under kills: of who fills the spool, who archives it, and nsqd, one or all at once.

What nsqd confirmed is in the lake once, and what it neither confirmed nor refused is there once at most.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from engine.bus import BusConfig, Message, open_transport
from engine.bus.message import encode
from engine.bus.transport import Outgoing, Status, Transport
from engine.core.ids import new_id
from engine.pipeline.lake.lake import Lake
from engine.pipeline.spool.files import paths_in, spools_beside
from engine.pipeline.spool.spooling import GROUP, make_group
from hbus_console.state import ROOT
from hbus_console.supervisor.standalone_nsqd import StandaloneNsqd
from tests.form import size

pytestmark = pytest.mark.chaos

TOPIC = "booking.created"
BATCH = 40
#: Real seconds after which what does not happen has failed.
PATIENCE_S = 240.0


@dataclass
class NsqPublisher:
    """Publishes until it is told to end, each try under an id of its own: nsqd knows no keys, so that what is sent
    again without an answer is another message to it."""

    transport: Transport
    ended: threading.Event = field(default_factory=threading.Event)
    confirmed: set[str] = field(default_factory=set)
    sent: set[str] = field(default_factory=set)

    def run(self) -> None:
        while not self.ended.is_set():
            names = [new_id(time.time_ns() // 1_000_000) for _ in range(BATCH)]
            self.sent.update(names)
            bodies = [encode(Message(id=name, source="/chaos", type="t", partitionkey=name[-1])) for name in names]
            outcomes = self.transport.publish(TOPIC, [Outgoing(*each) for each in zip(names, bodies, strict=True)])
            self.confirmed.update(each.message_id for each in outcomes if each.status is Status.OK)
            time.sleep(0.02)


@dataclass
class SpoolRig:
    """nsqd, one process that fills the spool, and one that does so and archives it."""

    nsqd: StandaloneNsqd
    lake: Lake
    config: BusConfig
    rng: random.Random
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)

    def start(self, name: str) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.spool_process"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        config = self.config
        told: dict[str, object] = {"url": config.url, "prefix": config.prefix, "options": config.options}
        told |= {"topic": TOPIC, "lake": str(self.lake.root), "name": name, "archives": name == "archiver"}
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.flush()
        # It has done a round: whatever it is killed in, it is not its own start.
        assert process.stdout.readline(), "it ended by itself"
        threading.Thread(target=process.stdout.read, daemon=True).start()
        self.processes[name] = process

    def kill(self, *names: str) -> None:
        """In one breath, and then all is started again."""
        for name in names:
            self.nsqd.kill() if name == "nsqd" else self.processes[name].kill()
            self.kills[name] += 1
        for name in names:
            if name == "nsqd":
                self.nsqd.start()
            else:
                self.processes[name].wait()
                self.start(name)

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


@pytest.fixture
def rig(redis_url: str, prefix: str, own_nsqd: StandaloneNsqd, tmp_path: Path) -> Iterator[SpoolRig]:
    config = BusConfig("nsq", redis_url, prefix, {"nsqd": own_nsqd.url})
    made = SpoolRig(own_nsqd, Lake(tmp_path / "lake"), config, random.Random(31))
    yield made
    made.end()


def test_kills_at_random_lose_and_double_nothing_of_what_nsqd_took(rig: SpoolRig) -> None:
    transport = open_transport(rig.config)
    transport.admin.create_topic(TOPIC)
    make_group(transport, TOPIC)
    publisher = NsqPublisher(transport)
    thread = threading.Thread(target=publisher.run)
    rig.start("spooler")
    rig.start("archiver")
    thread.start()
    try:
        for _ in range(size(30, short=8)):
            time.sleep(rig.rng.uniform(0.3, 2.0))
            rig.kill(*rig.rng.sample(["nsqd", "spooler", "archiver"], rig.rng.choice([1, 2, 2, 3])))
    finally:
        publisher.ended.set()
        thread.join(PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    while publisher.confirmed - ids_of(rig.lake).keys() or transport.admin.lag(TOPIC, GROUP).unsettled != 0:
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    # What came last is archived, too.
    time.sleep(1.0)
    rig.end()
    found = ids_of(rig.lake)
    state = rig.lake.state()
    counts = transport.admin.counts(TOPIC, GROUP)
    transport.close()

    assert not publisher.confirmed - found.keys(), "lost"
    assert not found.keys() - publisher.sent
    assert {id_: times for id_, times in found.items() if times > 1} == {}
    assert state.topics[TOPIC].losses == []
    assert counts.get("vanished", 0) == 0
    assert list(rig.lake.verify()) == []
    left = len(paths_in(spools_beside(rig.lake.root) / TOPIC))
    print(
        f"{len(publisher.confirmed):,} messages confirmed, {len(publisher.sent - publisher.confirmed):,} not,"
        f" {found.total():,} in the lake in {state.version} commits, {left} files left of the spool, killed"
        f" {dict(rig.kills)}, {counts.get('lapsed', 0):,} leases ran out, {counts.get('recovered', 0):,} from their"
        " copies: none lost, none doubled"
    )


def ids_of(lake: Lake) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in lake.paths(lake.state().files_of(TOPIC)):
        found.update(pq.read_table(path, columns=["id"])["id"].to_pylist())
    return found
