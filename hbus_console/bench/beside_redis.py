"""Ours on Redis Streams beside what redis-py alone does with the same work."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from engine.bus.config import BusConfig
from engine.bus.registry import open_transport
from hbus_console.bench import latency
from hbus_console.bench.processes import rate
from hbus_console.bench.rig import AREA, GROUP, PREFIX, TOPIC, Measurement, Rig

OURS = "hbus_console.bench.ours"
RAW = "hbus_console.bench.raw"
PEER = "redis-py + hiredis"

#: The least ratios asked for.
GOAL_PUBLISH = 0.7
GOAL_CONSUME = 0.4
GOAL_LEDGER = 0.15


@dataclass(frozen=True)
class RedisWork:
    """The measured work of both sides; every call empties the store first and returns messages per second."""

    rig: Rig

    def publish(self, *, processes: int = 1, facts: bool = True, do: str = "publish", count: int = 0) -> float:
        self.rig.clean()
        return rate(OURS, self.rig.task(do, processes, count, facts=facts))

    def raw_publish(self, *, processes: int = 1, do: str = "publish", count: int = 0) -> float:
        self.rig.clean()
        return rate(RAW, self.rig.task(do, processes, count, topic="raw"))

    def consume(self, *, processes: int = 1, facts: bool = True, ledger: Path | None = None) -> float:
        self.rig.clean()
        transport = open_transport(BusConfig(url=self.rig.store.url, prefix=PREFIX))
        transport.admin.create_topic(TOPIC)
        transport.admin.create_group(TOPIC, GROUP)
        transport.close()
        rate(OURS, self.rig.task("publish", facts=False))
        tasks = self.rig.task("consume", processes, facts=facts, threads=1, total=self.rig.count)
        if ledger is None:
            return rate(OURS, tasks)
        return latency.consume_with_ledger(tasks, self.rig.store.url, PREFIX, ledger)

    def raw_consume(self, *, processes: int = 1) -> float:
        self.rig.clean()
        self.rig.client.xgroup_create("raw", GROUP, id="0", mkstream=True)
        rate(RAW, self.rig.task("publish", topic="raw"))
        return rate(RAW, self.rig.task("consume", processes, topic="raw"))


def measurements(rig: Rig) -> Iterator[Measurement]:
    """Publishing and consuming by one and by two processes, one by one, with the ledger, and the way to a handler."""
    work = RedisWork(rig)
    for processes in (1, 2):
        label = f"{processes} process{'es' if processes > 1 else ''}"
        for facts in (False, True):
            yield rig.compared(
                f"publish in confirmed batches of 500, {label}, facts {'on' if facts else 'off'}",
                ours=partial(work.publish, processes=processes, facts=facts),
                peer=PEER,
                theirs=partial(work.raw_publish, processes=processes),
                goal=GOAL_PUBLISH if facts else None,
            )
            yield rig.compared(
                f"consume and settle, no-op handler, {label}, facts {'on' if facts else 'off'}",
                ours=partial(work.consume, processes=processes, facts=facts),
                peer=PEER,
                theirs=partial(work.raw_consume, processes=processes),
                goal=GOAL_CONSUME if facts else None,
            )
    yield rig.compared(
        "consume and settle, 1 process, every message in the ledger",
        ours=lambda: work.consume(ledger=rig.folder / f"ledger-{secrets.token_hex(4)}"),
        peer=PEER,
        theirs=work.raw_consume,
        goal=GOAL_LEDGER,
    )
    single = max(500, rig.count // 20)
    yield rig.compared(
        "publish one by one, each confirmed, facts on",
        ours=partial(work.publish, do="publish singly", count=single),
        peer=PEER,
        theirs=partial(work.raw_publish, do="publish singly", count=single),
    )
    yield Measurement(
        latency.WHAT,
        lambda: latency.row(AREA, rig.store.url, PREFIX, samples=rig.samples, conditions=rig.conditions, peer=PEER),
    )
