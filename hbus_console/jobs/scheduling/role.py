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
from django.db import DatabaseError

from engine.cron.slots.node import AHEAD_S, CronNode
from hbus_console.database import fresh_connections, keep_connections, put_off_write_back, write_back
from hbus_console.jobs.known import KnownJobs
from hbus_console.jobs.places import own_places
from hbus_console.jobs.telling import telling
from hbus_console.nodes.beat import NodeBeat
from hbus_console.wiring import fact_log, store
from hbus_console.wiring.cron import hasty_client, slot_store

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
        put_off_write_back()
        self._told = told
        client = hasty_client()
        self._known = KnownJobs()
        name = store.node_name()
        act = telling(own_places(client), fact_log.emitter(), name)
        store_time = slot_store(client).time
        most_off_s = settings.HBUS_CRON_CLOCK_S
        self._node = CronNode(name, act, self._known.changes, store_time, most_off_s=most_off_s, ahead_s=AHEAD_S)
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
        sweeper = threading.Thread(target=self._again, args=(self._sweep,), name="sweep", daemon=True)
        sweeper.start()
        self._again(self._tick)
        while pause_s := self._node.finish():
            time.sleep(pause_s)
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

    def _sweep(self) -> float:
        return swept(self._node.sweep)

    def _again(self, work: Callable[[], float]) -> None:
        while not self._told.is_set():
            with fresh_connections():
                pause_s = work()
            self._told.wait(pause_s)


def swept(sweep: Callable[[], float]) -> float:
    """Sweep, and write SQLite's log back after that; the pause until the next time, whatever becomes of the log."""
    pause_s = sweep()
    try:
        write_back()
    except DatabaseError:
        # Whoever sweeps no more ends no run and offers none, for good. The log is only longer until the next time.
        _log.exception("the database's log was not written back")
    return pause_s


def keep_what_is_known() -> None:
    """Take what is in memory out of the garbage collector's rounds: with 100,000 jobs one holds all up for 0.25 s."""
    gc.collect()
    gc.freeze()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
