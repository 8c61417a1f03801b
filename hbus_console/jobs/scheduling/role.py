"""The cron role: one of any number of nodes that decide slots, all of them active."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import structlog
from django.conf import settings

from engine.core.store import open_client
from engine.cron.slots.node import CronNode
from engine.cron.slots.store import SlotStore
from hbus_console.database import fresh_connections, keep_connections
from hbus_console.jobs.judge import SlotJudge
from hbus_console.jobs.known import KnownJobs
from hbus_console.jobs.places import places
from hbus_console.jobs.queue import offer
from hbus_console.jobs.telling import telling
from hbus_console.jobs.workers import working_nodes
from hbus_console.nodes.beat import NodeBeat
from hbus_console.wiring import fact_log, store

#: Slots of others wait no longer than this for a store that does not answer, in seconds.
STORE_TIMEOUT_S = 2.0

_log = structlog.get_logger(__name__)


def run(slot: int) -> None:
    """Decide slots until SIGTERM."""
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    node = HostedNode(told)
    _log.info("cron node started")
    node.serve()
    _log.info("cron node stopped")


class HostedNode:
    """A node with its threads: one ticks, one sweeps, one stamps that it lives."""

    def __init__(self, told: threading.Event) -> None:
        keep_connections()
        self._told = told
        client = open_client(store.url(), answer_timeout_s=STORE_TIMEOUT_S, connect_timeout_s=STORE_TIMEOUT_S)
        slots = SlotStore(client, settings.HBUS_PREFIX)
        self._known = KnownJobs()
        name = store.node_name()
        act = telling(
            places(slots, SlotJudge(), offer, lambda: working_nodes(client, settings.HBUS_PREFIX)),
            fact_log.emitter(),
            name,
        )
        self._node = CronNode(name, act, self._known.changes, slots.time, most_off_s=settings.HBUS_CRON_CLOCK_S)
        self._knows = False
        self._turned_ms = _now_ms()
        self._beat = NodeBeat(
            store.client(),
            settings.HBUS_PREFIX,
            name=name,
            role="cron",
            slot=os.environ.get("HBUS_SLOT", "0"),
            detail=self.report,
            turned_ms=lambda: self._turned_ms,
        )

    def serve(self) -> None:
        """Until told to stop; what is decided then is offered, and found by others where it was not."""
        self._beat.start()
        sweeper = threading.Thread(target=self._again, args=(self._node.sweep,), name="sweep", daemon=True)
        sweeper.start()
        self._again(self._tick)
        sweeper.join()
        self._beat.stop()
        store.close(1.0)

    def report(self) -> dict[str, Any]:
        """For the node's stamp."""
        node = self._node
        return {
            "jobs": len(node.jobs),
            "opened": node.opened,
            "trouble": node.trouble or node.sweep_trouble,
            "failing": {**self._known.unreadable, **node.failing},
        }

    def _tick(self) -> float:
        pause_s = self._node.tick()
        self._turned_ms = _now_ms()
        if self._node.jobs and not self._knows:
            keep_what_is_known()
            self._knows = True
        return pause_s

    def _again(self, work: Callable[[], float]) -> None:
        while not self._told.is_set():
            with fresh_connections():
                pause_s = work()
            self._told.wait(pause_s)


def keep_what_is_known() -> None:
    """Take what is in memory out of the garbage collector's rounds: with 100,000 jobs one holds all up for 0.25 s."""
    gc.collect()
    gc.freeze()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
