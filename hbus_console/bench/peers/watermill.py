"""Watermill's Go adapter for Redis Streams as a peer, built on demand from ``tests/bench/watermill``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hbus_console.bench.peers import go_program
from hbus_console.bench.processes import rate
from hbus_console.state import ROOT

SOURCES = ROOT / "tests" / "bench" / "watermill"
BINARIES = go_program.BINARIES
NAME = "Watermill 1.5.1 + redisstream 1.4.5"
#: Goroutines that publish, and subscribers of the one group: what its own benchmark uses.
PUBLISHERS = 64
SUBSCRIBERS = 16


def binary() -> Path:
    """Where the program of these sources is built; other sources have another."""
    return go_program.binary("watermill", SOURCES, BINARIES)


def build() -> Path:
    """Build it unless it is there; safe from several processes. Raises :class:`ConfigurationError` saying why not."""
    return go_program.build("watermill", SOURCES, BINARIES)


def publish_rate(program: Path, url: str, *, count: int, size: int) -> float:
    """Messages per second that :data:`PUBLISHERS` goroutines publish, each confirmed."""
    return rate(program, [_task("publish", url, count, size, PUBLISHERS)])


def consume_rate(program: Path, url: str, *, count: int, size: int) -> float:
    """Messages per second that :data:`SUBSCRIBERS` subscribers of one group get and acknowledge."""
    publish_rate(program, url, count=count, size=size)
    return rate(program, [_task("consume", url, count, size, SUBSCRIBERS)])


def _task(do: str, url: str, count: int, size: int, workers: int) -> dict[str, Any]:
    return {"do": do, "url": url, "topic": "watermill", "count": count, "size": size, "workers": workers}
