"""dramatiq as a peer: one no-op actor, one process, eight threads."""

from __future__ import annotations

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

broker = RedisBroker(url=os.environ["PEER_URL"])  # type: ignore[no-untyped-call]
dramatiq.set_broker(broker)

WORKER = "dramatiq hbus_console.bench.peers.dramatiq_app -p 1 -t 8"


@dramatiq.actor
def handle(body: str) -> None:
    """Does nothing with ``body``."""


def publish(count: int, body: str) -> None:
    for _ in range(count):
        handle.send(body)
