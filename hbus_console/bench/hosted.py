"""What many subscriptions ask of the one process that hosts them while nothing is published: threads, connections,
memory, processor time, commands at the store."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psutil

from hbus_console.bench import ours
from hbus_console.bench.processes import Child
from hbus_console.bench.rig import GROUP, PREFIX, Rig

END = "hbus_console.bench.hosted_end"
MIB = 1024 * 1024
#: Seconds left to settle between the first read of the last subscription and the watching.
SETTLE_S = 3.0


def lines(rig: Rig, numbers: Sequence[int], seconds: float) -> Iterator[Sequence[str]]:
    """A line for each number of subscriptions, watched for ``seconds``, under a head.

    Raises ``RuntimeError`` when the process ends, or not all of them come to read.
    """
    yield (
        "subscriptions", "threads", "connections", "memory, MiB", "a core, %", "the store's core, %", "commands/s",
        "until all read, s",
    )  # fmt: skip
    for number in numbers:
        yield _line(rig, number, seconds)


def conditions(rig: Rig, seconds: float) -> str:
    """Under what the figures were had."""
    return (
        f"idle, each on a topic of its own with 4 threads and a lease of 30 s, facts and breakers as in a role, no "
        f"database; watched for {seconds:g} s; commands of scripts included; {rig.server}; "
        f"load {os.getloadavg()[0]:.1f}"
    )


def _line(rig: Rig, number: int, seconds: float) -> Sequence[str]:
    rig.clean()
    task = {"url": rig.store.url, "prefix": PREFIX, "number": number, "facts": True}
    transport = ours.transport_for(task)
    for topic in topics(number):
        transport.admin.create_topic(topic)
        transport.admin.create_group(topic, GROUP)
    transport.close()
    child = Child(END, task)
    try:
        others = _connections(rig)
        child.go()
        read_s = float(child.expect("reading"))
        time.sleep(SETTLE_S)
        process, server = psutil.Process(child.pid), psutil.Process(rig.store.pid)
        spent, served, asked, begun = _spent(process), _spent(server), _commands(rig), time.monotonic()
        most = 0
        while (left_s := begun + seconds - time.monotonic()) > 0:
            time.sleep(min(0.5, left_s))
            child.check()
            most = max(most, _connections(rig) - others)
        took = time.monotonic() - begun
        return (
            f"{number}",
            f"{process.num_threads()}",
            f"{most}",
            f"{process.memory_info().rss / MIB:.0f}",
            f"{(_spent(process) - spent) / took * 100:.1f}",
            f"{(_spent(server) - served) / took * 100:.1f}",
            f"{(_commands(rig) - asked) / took:,.0f}",
            f"{read_s:.1f}",
        )
    finally:
        child.kill()


def topics(number: int) -> list[str]:
    """The names of so many topics."""
    return [f"bench.hosted{each}" for each in range(number)]


def _spent(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _commands(rig: Rig) -> int:
    found: Any = rig.client.info("stats")
    return int(found["total_commands_processed"])


def _connections(rig: Rig) -> int:
    found: Any = rig.client.info("clients")
    return int(found["connected_clients"])
