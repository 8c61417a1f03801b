"""Ours on Redis Streams beside what redis-py alone does with the same work."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.bus.partitions import DEFAULT_PARTITIONS
from hbus_console.bench import latency, ours
from hbus_console.bench.processes import Work, rate
from hbus_console.bench.rig import AREA, GROUP, PREFIX, Measurement, Rig

OURS = "hbus_console.bench.ours"
RAW = "hbus_console.bench.raw"
PEER = "redis-py + hiredis"

#: The least ratios asked for.
GOAL_PUBLISH = 1.2
GOAL_SINGLY = 0.55
GOAL_CONSUME = 0.55
GOAL_CONSUME_ORDERED = 0.42
GOAL_LEDGER = 0.45


@dataclass(frozen=True)
class RedisWork:
    """The measured work of both sides; every call empties the store first and makes ready what is to be run."""

    rig: Rig

    def publish(
        self,
        *,
        processes: int = 1,
        facts: bool = True,
        do: str = "publish",
        count: int = 0,
        partitions: int = 0,
    ) -> Work:
        self.rig.clean()
        tasks = self.rig.task(do, processes, count, facts=facts, **_order(partitions))
        ours.prepare(tasks[0], GROUP)
        return Work(OURS, tasks)

    def raw_publish(self, *, processes: int = 1, do: str = "publish", count: int = 0, size: int = 0) -> Work:
        """Bodies of ``size`` bytes, or as long as the payloads of ours."""
        self.rig.clean()
        return Work(RAW, self.rig.task(do, processes, count, topic="raw", size=size or self.rig.size))

    def consume(self, *, processes: int = 1, facts: bool = True, partitions: int = 0) -> Work:
        self.rig.clean()
        (filling,) = self.rig.task("publish", facts=False, **_order(partitions))
        ours.prepare(filling, GROUP)
        rate(OURS, [filling])
        more = {"facts": facts, "threads": 1, "total": self.rig.count, **_order(partitions)}
        return Work(OURS, self.rig.task("consume", processes, **more))

    def consume_with_ledger(self) -> float:
        """Messages per second until the last one stands in a ledger of its own."""
        folder = self.rig.folder / f"ledger-{secrets.token_hex(4)}"
        return latency.consume_with_ledger(self.consume().tasks, self.rig.store.url, PREFIX, folder)

    def raw_consume(self, *, processes: int = 1) -> Work:
        self.rig.clean()
        self.rig.client.xgroup_create("raw", GROUP, id="0", mkstream=True)
        rate(RAW, self.rig.task("publish", topic="raw"))
        return Work(RAW, self.rig.task("consume", processes, topic="raw"))


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
                goal=GOAL_PUBLISH if facts and processes == 1 else None,
            )
            yield rig.compared(
                f"consume and settle, no-op handler, {label}, facts {'on' if facts else 'off'}",
                ours=partial(work.consume, processes=processes, facts=facts),
                peer=PEER,
                theirs=partial(work.raw_consume, processes=processes),
                goal=GOAL_CONSUME if facts and processes == 1 else None,
            )
    yield rig.compared(
        "consume and settle, 1 process, every message in the ledger",
        ours=work.consume_with_ledger,
        peer=PEER,
        theirs=work.raw_consume,
        goal=GOAL_LEDGER,
    )
    single = max(500, rig.count // 5)
    yield rig.compared(
        "publish one by one, each confirmed, facts on",
        ours=partial(work.publish, do="publish singly", count=single),
        peer=PEER,
        theirs=partial(work.raw_publish, do="publish singly", count=single),
        goal=GOAL_SINGLY,
    )
    yield from _ordered(rig, work)
    yield Measurement(
        latency.WHAT,
        lambda: latency.row(AREA, rig.store.url, PREFIX, samples=rig.samples, conditions=rig.conditions, peer=PEER),
    )


def _ordered(rig: Rig, work: RedisWork) -> Iterator[Measurement]:
    """The same with order by key, which redis-py alone has no word for."""
    order = f"order on, {DEFAULT_PARTITIONS} partitions"
    also = f"{ours.KEYS} keys; redis-py keeps no order"
    yield rig.compared(
        f"publish in confirmed batches of 500, 1 process, {order}, facts on",
        ours=partial(work.publish, partitions=DEFAULT_PARTITIONS),
        peer=PEER,
        theirs=work.raw_publish,
        also=also,
    )
    yield rig.compared(
        f"consume and settle, no-op handler, 1 process, {order}, facts on",
        ours=partial(work.consume, partitions=DEFAULT_PARTITIONS),
        peer=PEER,
        theirs=work.raw_consume,
        goal=GOAL_CONSUME_ORDERED,
        also=also,
    )


def _order(partitions: int) -> dict[str, Any]:
    return {"partitions": partitions} if partitions else {}
