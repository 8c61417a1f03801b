"""Ours beside Watermill's Go adapter for Redis Streams, on the same store."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from hbus_console.bench.beside_redis import RedisWork
from hbus_console.bench.peers import watermill
from hbus_console.bench.rig import Measurement, Rig

#: The least ratios asked for.
GOAL_PUBLISH = 1.8
GOAL_CONSUME = 1.5


def measurements(rig: Rig) -> Iterator[Measurement]:
    """Ours in one process or two, facts on; theirs is one process that uses every core."""
    work = RedisWork(rig)

    def publish() -> float:
        rig.clean()
        return watermill.publish_rate(watermill.build(), rig.store.url, count=rig.count, size=rig.size)

    def consume() -> float:
        rig.clean()
        return watermill.consume_rate(watermill.build(), rig.store.url, count=rig.count, size=rig.size)

    for processes in (1, 2):
        yield rig.compared(
            f"publish batched, {'2 processes, ' if processes == 2 else ''}beside Watermill",
            ours=partial(work.publish, processes=processes),
            peer=watermill.NAME,
            theirs=publish,
            goal=GOAL_PUBLISH if processes == 1 else None,
            also=f"Watermill publishes from {watermill.PUBLISHERS} goroutines, one message a call: it knows no batches",
            ready=watermill.build,
        )
    yield rig.compared(
        f"consume and settle, 1 process, beside Watermill with {watermill.SUBSCRIBERS} subscribers of one group",
        ours=work.consume,
        peer=watermill.NAME,
        theirs=consume,
        goal=GOAL_CONSUME,
        ready=watermill.build,
    )
