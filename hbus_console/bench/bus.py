"""`manage.py bench bus`: the bus beside its peers, each pair on one store, in one run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hbus_console.bench import beside_nsq, beside_queues, beside_redis, beside_watermill
from hbus_console.bench.rig import AREA, Measurement, Rig
from hbus_console.supervisor.standalone import StandaloneStore

__all__ = ["AREA", "measured", "measurements"]


def measurements(rig: Rig, *, queues: bool = True) -> Iterator[Measurement]:
    """Every row of the area, in the order of the table; ``queues`` are those beside task queues."""
    yield from beside_redis.measurements(rig)
    yield from beside_watermill.measurements(rig)
    yield from beside_nsq.measurements(rig)
    if queues:
        yield from beside_queues.measurements(rig)


@contextmanager
def measured(*, count: int, peer_count: int, samples: int) -> Iterator[Rig]:
    """A rig with a store of its own, for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="hbus-bench-") as name:
        folder = Path(name)
        rig = Rig(folder, StandaloneStore(folder / "store").start(), count, peer_count, samples)
        try:
            yield rig
        finally:
            rig.close()
