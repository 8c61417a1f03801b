"""Ours beside task queues that do the same job: take work in, hand it to one worker, settle it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from engine.core.errors import ConfigurationError
from hbus_console.bench.beside_redis import RedisWork
from hbus_console.bench.peers import drive
from hbus_console.bench.rig import Measurement, Rig

#: The least ratio asked for beside Celery.
GOAL_CELERY = 20.0


def measurements(rig: Rig) -> Iterator[Measurement]:
    """Publishing and consuming beside each of them."""
    work = RedisWork(rig)

    def publish(peer: str) -> float:
        rig.clean()
        return drive.publish_rate(peer, rig.store.url, rig.peer_count, rig.size)

    def consume(peer: str) -> float:
        publish(peer)
        return drive.consume_rate(peer, rig.store.url)

    for peer in drive.PEERS:
        goal = GOAL_CELERY if peer == "celery" else None
        also = f"{peer} with {rig.peer_count:,} tasks, one worker of 8 threads"
        ready = partial(_check, peer)
        yield rig.compared(
            f"publish, beside {peer}",
            ours=work.publish,
            peer=peer,
            theirs=partial(publish, peer),
            goal=goal,
            also=also,
            ready=ready,
        )
        yield rig.compared(
            f"consume and settle, beside {peer}",
            ours=work.consume,
            peer=peer,
            theirs=partial(consume, peer),
            goal=goal,
            also=also,
            ready=ready,
        )


def _check(peer: str) -> None:
    if not drive.installed(peer):
        raise ConfigurationError("not installed, see requirements-dev.txt", remedy="Run `make setup`.")
