"""golang.org/x/time/rate as a peer, built on demand from ``peers/rate``."""

from __future__ import annotations

from pathlib import Path

from hbus_console.bench.peers import go_program
from hbus_console.bench.processes import Child

SOURCES = Path(__file__).parent / "rate"
NAME = "golang.org/x/time/rate 0.16.0 Allow()"


def build() -> Path:
    """Build it unless it is there. Raises :class:`~engine.core.errors.ConfigurationError` saying why not."""
    return go_program.build("rate", SOURCES)


def allow_ns(count: int, goroutines: int) -> float:
    """Processor nanoseconds of one call; of one goroutine those of its thread, of several those of the process."""
    child = Child(build(), {"count": count, "goroutines": goroutines})
    child.go()
    return float(child.result()["cpu_ns"])
