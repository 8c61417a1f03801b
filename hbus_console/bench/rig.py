"""The bench's rig: a store (and an nsqd) of the run's own, and how one row is measured on them."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import redis

from engine.core.errors import BadInput, ConfigurationError
from hbus_console.bench.processes import Work
from hbus_console.bench.rows import Row, compare, missing
from hbus_console.supervisor.standalone import StandaloneStore
from hbus_console.supervisor.standalone_nsqd import StandaloneNsqd

AREA = "bus"
PREFIX = "bench"
TOPIC = "bench.topic"
GROUP = "bench"


@dataclass(frozen=True)
class Measurement:
    """A row that can be had: what it says, and how it is measured."""

    what: str
    measure: Callable[[], Row]


@dataclass
class Rig:
    """One run: its folder and store, its size and its number of interleaved samples. Close it."""

    folder: Path
    store: StandaloneStore
    count: int
    peer_count: int
    samples: int
    size: int = 200

    def __post_init__(self) -> None:
        self.client = redis.Redis.from_url(self.store.url)
        #: What everything is measured on.
        self.server = conditions_of(self.store.url)
        self.conditions = f"{self.count:,} messages of {self.size} B, {self.samples} interleaved runs, {self.server}"

    @cached_property
    def nsqd(self) -> StandaloneNsqd:
        """Started when first asked for. Raises ``ConfigurationError`` where there is none."""
        return StandaloneNsqd(self.folder / "nsqd").start()

    def close(self) -> None:
        """End what was started."""
        if "nsqd" in self.__dict__:
            self.nsqd.kill()
        self.client.close()
        self.store.kill()

    def clean(self) -> None:
        """Empty the store: nothing else lives in it."""
        self.client.flushall()

    def task(self, do: str, processes: int = 1, count: int = 0, **more: Any) -> list[dict[str, Any]]:
        """The arguments of the measured processes, which share the work."""
        common = {"url": self.store.url, "prefix": PREFIX, "topic": TOPIC, "size": self.size, "do": do}
        share = count or self.count // processes
        return [{**common, "count": share, "name": f"bench-{slot}", **more} for slot in range(processes)]

    def compared(
        self,
        what: str,
        *,
        ours: Callable[[], float | Work],
        peer: str,
        theirs: Callable[[], float | Work],
        goal: float | None = None,
        also: str = "",
        ready: Callable[[], object] | None = None,
        both: bool = False,
    ) -> Measurement:
        """A row of messages per second, of work made ready or measured. ``also`` is added to the conditions.

        ``ready`` raises ``ConfigurationError`` where the peer cannot be had, which the row then says beside our own
        figure; without even that when ``both`` need it.
        """
        conditions = f"{self.conditions}; {also}" if also else self.conditions

        def measure() -> Row:
            try:
                if ready is not None:
                    ready()
            except ConfigurationError as error:
                figure = None if both else _rate(ours)
                return missing(
                    AREA, what, "msg/s", ours=figure, peer=peer, why=error.what, conditions=conditions, goal=goal
                )
            return compare(
                AREA,
                what,
                "msg/s",
                ours=lambda: _rate(ours),
                peer=peer,
                theirs=lambda: _rate(theirs),
                samples=self.samples,
                conditions=conditions,
                goal=goal,
            )

        return Measurement(what, measure)


def conditions_of(url: str) -> str:
    """The store at ``url`` and the machine, in words; the store rewrites its log no more."""
    client = redis.Redis.from_url(url)
    try:
        # A rewrite of the log takes a core for half a run, of one side or the other.
        client.config_set("auto-aof-rewrite-percentage", 0)
        server = client.info("server").get("valkey_version", "?")
        fsync = client.config_get("appendfsync")["appendfsync"]
    finally:
        client.close()
    return (
        f"Valkey {server} append-only {fsync} without rewrites on loopback, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores"
    )


def _rate(measured: Callable[[], float | Work]) -> float:
    made = measured()
    return made.rate() if isinstance(made, Work) else made


def chosen(everything: Sequence[Measurement], only: str) -> list[Measurement]:
    """Those whose name contains ``only``, in whatever case. Raises ``BadInput`` naming all of them when none does."""
    wanted = [each for each in everything if only.casefold() in each.what.casefold()]
    if not wanted:
        names = "\n  ".join(each.what for each in everything)
        raise BadInput(f"No row's name contains {only!r}.", remedy=f"These are the rows:\n  {names}", field="--only")
    return wanted
