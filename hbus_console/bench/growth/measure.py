"""Measures what a message costs: processor time of each process, and space, on a store of the run's own."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from hbus_console.bench import ours
from hbus_console.bench.growth.costs import Costs
from hbus_console.bench.processes import Child
from hbus_console.bench.rig import GROUP, PREFIX, Rig
from hbus_console.state import ROOT

OURS = "hbus_console.bench.ours"
#: Consuming processes of the measured rate that the arithmetic is held against.
PROCESSES = 2


class _Sample:
    """One publish and consume of everything, and one booking of it."""

    def __init__(self, rig: Rig, state: Path) -> None:
        self._rig = rig
        count = rig.count
        rig.clean()
        (task,) = rig.task("publish", facts=True)
        ours.prepare(task, GROUP)
        began = self._store()
        self.publish_us = self._work([task]) / count * 1e6
        published = self._store()
        self.store_publish_us = (published["cpu_s"] - began["cpu_s"]) / count * 1e6
        self.logged_publish_b = (published["log_b"] - began["log_b"]) / count
        # Facts lie beside the messages until they are booked; what a message keeps is what its stream does.
        streams = sum(int(rig.client.memory_usage(key, samples=0) or 0) for key in self._streams(task["topic"]))
        self.stored_b = streams / count
        self.consume_us = self._work(rig.task("consume", facts=True, threads=1, total=count)) / count * 1e6
        consumed = self._store()
        self.store_consume_us = (consumed["cpu_s"] - published["cpu_s"]) / count * 1e6
        self.logged_consume_b = (consumed["log_b"] - published["log_b"]) / count
        self.booked_us, self.booked_b = (each / count for each in _book(rig.store.url, state, count))
        self.booked_us *= 1e6

    def _streams(self, topic: str) -> list[bytes]:
        found: Any = self._rig.client.keys(f"{PREFIX}:{{{topic}}}:*")
        return [key for key in found if self._rig.client.type(key) == b"stream" and b":group:" not in key]

    def _work(self, tasks: Sequence[dict[str, Any]]) -> float:
        """Seconds of processor time of all."""
        children = [Child(OURS, task) for task in tasks]
        for child in children:
            child.go()
        return sum(float(child.result()["cpu_s"]) for child in children)

    def _store(self) -> dict[str, float]:
        used: Any = self._rig.client.info("cpu")
        log: Any = self._rig.client.info("persistence")
        # The thread that runs commands, without those that write files and free memory.
        cpu_s = float(used["used_cpu_user_main_thread"]) + float(used["used_cpu_sys_main_thread"])
        return {"cpu_s": cpu_s, "log_b": float(log["aof_current_size"])}


def measure(rig: Rig) -> Costs:
    """The medians of ``rig.samples`` runs."""
    # A log that is rewritten in between would shrink.
    rig.client.config_set("auto-aof-rewrite-percentage", 0)
    samples = [_Sample(rig, rig.folder / f"growth-{number}") for number in range(rig.samples)]
    fields = sorted(vars(samples[0]).keys() - {"_rig"})
    middle = {name: round(median(getattr(sample, name) for sample in samples), 2) for name in fields}
    return Costs(
        conditions=rig.conditions,
        size=rig.size,
        cores=os.cpu_count() or 1,
        processes=PROCESSES,
        measured_rate=round(median(_rate(rig) for _ in range(rig.samples))),
        **middle,
    )


def _rate(rig: Rig) -> float:
    """Deliveries a second by :data:`PROCESSES` processes."""
    rig.clean()
    (filling,) = rig.task("publish", facts=False)
    ours.prepare(filling, GROUP)
    child = Child(OURS, filling)
    child.go()
    child.result()
    children = [Child(OURS, task) for task in rig.task("consume", PROCESSES, facts=True, threads=1, total=rig.count)]
    for each in children:
        each.go()
    reports = [each.result() for each in children]
    span_s = max(one["ended"] for one in reports) - min(one["started"] for one in reports)
    return float(sum(one["count"] for one in reports) / span_s)


def _book(url: str, state: Path, count: int) -> tuple[float, float]:
    """Book all facts that lie in the store: seconds of processor time, and bytes of the database they filled."""
    state.mkdir(parents=True)
    environment = {**os.environ, "STATE": str(state), "REDIS_URL": url, "HBUS_PREFIX": PREFIX, "HBUS_APPS": ""}
    # What is booked lies in the ledger; the booker asks the other database nothing.
    command = [sys.executable, "manage.py", "migrate", "-v0", "--database", "ledger"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    ledger = state / "ledger.sqlite3"
    empty = _size(ledger)
    command = [sys.executable, "-m", "hbus_console.bench.booker", str(count)]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True, timeout=600)
    cpu_s = float(done.stdout.split()[-1])
    return cpu_s, _size(ledger) - empty


def _size(database: Path) -> int:
    connection = sqlite3.connect(database)
    (pages,), (page,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size"))
    connection.close()
    return int(pages * page)
