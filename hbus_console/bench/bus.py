"""`manage.py bench bus`: the bus beside raw redis-py and beside three task queues, on one Valkey, in one run."""

from __future__ import annotations

import platform
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import redis

from engine.bus.config import BusConfig
from engine.bus.registry import open_transport
from hbus_console.bench import latency
from hbus_console.bench.peers import drive
from hbus_console.bench.processes import rate
from hbus_console.bench.rows import Row, compare, missing
from hbus_console.supervisor.standalone import StandaloneStore

AREA = "bus"
PREFIX = "bench"
RAW = "redis-py + hiredis"

#: The least ratios asked for.
GOAL_PUBLISH = 0.6
GOAL_CONSUME = 0.3
GOAL_LEDGER = 0.15
GOAL_CELERY = 20.0


@dataclass
class Bench:
    """One run: its store, its size and its number of interleaved samples."""

    store: StandaloneStore
    count: int
    peer_count: int
    samples: int
    size: int = 200

    def __post_init__(self) -> None:
        self.client = redis.Redis.from_url(self.store.url)
        server = self.client.info("server").get("valkey_version", "?")
        fsync = self.client.config_get("appendfsync")["appendfsync"]
        self.conditions = (
            f"{self.count:,} messages of {self.size} B, {self.samples} interleaved runs, "
            f"Valkey {server} append-only {fsync} on loopback, Python {platform.python_version()}"
        )

    def _task(self, do: str, processes: int, **more: Any) -> list[dict[str, Any]]:
        return [
            {
                "url": self.store.url,
                "prefix": PREFIX,
                "size": self.size,
                "do": do,
                "count": self.count // processes,
                "name": f"bench-{slot}",
                **more,
            }
            for slot in range(processes)
        ]

    def _clean(self) -> None:
        # The store is the run's own: nothing else lives in it.
        self.client.flushall()

    def ours_publish(self, *, processes: int = 1, facts: bool = True, do: str = "publish", count: int = 0) -> float:
        self._clean()
        task = self._task(do, processes, topic="bench.topic", facts=facts)
        if count:
            task = [{**one, "count": count} for one in task]
        return rate("hbus_console.bench.ours", task)

    def raw_publish(self, *, processes: int = 1, do: str = "publish", count: int = 0) -> float:
        self._clean()
        task = self._task(do, processes, topic="raw")
        if count:
            task = [{**one, "count": count} for one in task]
        return rate("hbus_console.bench.raw", task)

    def ours_consume(self, *, processes: int = 1, facts: bool = True, ledger: Path | None = None) -> float:
        self._clean()
        topic = "bench.topic"
        transport = open_transport(BusConfig(url=self.store.url, prefix=PREFIX))
        transport.admin.create_topic(topic)
        transport.admin.create_group(topic, "bench")
        transport.close()
        rate("hbus_console.bench.ours", self._task("publish", 1, topic=topic, facts=False))
        tasks = self._task("consume", processes, topic=topic, facts=facts, threads=1, total=self.count)
        if ledger is None:
            return rate("hbus_console.bench.ours", tasks)
        return latency.consume_with_ledger(tasks, self.store.url, PREFIX, ledger)

    def raw_consume(self, *, processes: int = 1) -> float:
        self._clean()
        self.client.xgroup_create("raw", "bench", id="0", mkstream=True)
        rate("hbus_console.bench.raw", self._task("publish", 1, topic="raw"))
        return rate("hbus_console.bench.raw", self._task("consume", processes, topic="raw"))

    def raw_rows(self) -> Iterator[Row]:
        """Ours beside what the bare client does with the same work."""
        common: dict[str, Any] = {"samples": self.samples, "conditions": self.conditions}
        for processes in (1, 2):
            label = f"{processes} process{'es' if processes > 1 else ''}"
            for facts in (False, True):
                yield compare(
                    AREA,
                    f"publish in confirmed batches of 500, {label}, facts {'on' if facts else 'off'}",
                    "msg/s",
                    ours=partial(self.ours_publish, processes=processes, facts=facts),
                    peer=RAW,
                    theirs=partial(self.raw_publish, processes=processes),
                    goal=GOAL_PUBLISH if facts else None,
                    **common,
                )
                yield compare(
                    AREA,
                    f"consume and settle, no-op handler, {label}, facts {'on' if facts else 'off'}",
                    "msg/s",
                    ours=partial(self.ours_consume, processes=processes, facts=facts),
                    peer=RAW,
                    theirs=partial(self.raw_consume, processes=processes),
                    goal=GOAL_CONSUME if facts else None,
                    **common,
                )
        with tempfile.TemporaryDirectory(prefix="hbus-bench-") as folder:
            yield compare(
                AREA,
                "consume and settle, 1 process, every message in the ledger",
                "msg/s",
                ours=lambda: self.ours_consume(ledger=Path(folder) / secrets.token_hex(4)),
                peer=RAW,
                theirs=self.raw_consume,
                goal=GOAL_LEDGER,
                **common,
            )
        single = max(500, self.count // 20)
        yield compare(
            AREA,
            "publish one by one, each confirmed, facts on",
            "msg/s",
            ours=partial(self.ours_publish, do="publish singly", count=single),
            peer=RAW,
            theirs=partial(self.raw_publish, do="publish singly", count=single),
            **common,
        )
        yield latency.row(AREA, self.store.url, PREFIX, samples=self.samples, conditions=self.conditions, peer=RAW)

    def queue_rows(self) -> Iterator[Row]:
        """Ours beside task queues that do the same job: take work in, hand it to one worker, settle it."""
        for peer in drive.PEERS:
            goal = GOAL_CELERY if peer == "celery" else None
            publish, consume = f"publish, beside {peer}", f"consume and settle, beside {peer}"
            if not drive.installed(peer):
                why = "not installed, see requirements-dev.txt"
                rest = {"conditions": self.conditions, "goal": goal}
                yield missing(AREA, publish, "msg/s", ours=self.ours_publish(), peer=peer, why=why, **rest)
                yield missing(AREA, consume, "msg/s", ours=self.ours_consume(), peer=peer, why=why, **rest)
                continue
            conditions = f"{self.conditions}; {peer} with {self.peer_count:,} tasks, one worker of 8 threads"
            common: dict[str, Any] = {"samples": self.samples, "conditions": conditions, "goal": goal}

            def theirs_publish(name: str = peer) -> float:
                self._clean()
                return drive.publish_rate(name, self.store.url, self.peer_count, self.size)

            def theirs_consume(name: str = peer) -> float:
                theirs_publish(name)
                return drive.consume_rate(name, self.store.url)

            yield compare(AREA, publish, "msg/s", ours=self.ours_publish, peer=peer, theirs=theirs_publish, **common)
            yield compare(AREA, consume, "msg/s", ours=self.ours_consume, peer=peer, theirs=theirs_consume, **common)


def run(*, count: int, peer_count: int, samples: int, queues: bool) -> Iterator[Row]:
    """All rows of the area, as they are measured."""
    with tempfile.TemporaryDirectory(prefix="hbus-bench-") as folder:
        store = StandaloneStore(Path(folder) / "store").start()
        try:
            bench = Bench(store, count, peer_count, samples)
            yield from bench.raw_rows()
            if queues:
                yield from bench.queue_rows()
        finally:
            store.kill()
